// SPDX-License-Identifier: Apache-2.0
//! A node in memory whose every answer is scripted.

use cachepilot_agent::Result;
use cachepilot_agent::node::{Identity, Node, Observation, Pace};
use cachepilot_agent::wire;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use wire::result::Outcome;

/// What a test sees and changes of a node that an agent owns.
#[derive(Debug, Default)]
pub struct Script {
    pub state: Mutex<State>,
    pub freed: Condvar,
}

#[derive(Debug, Default)]
pub struct State {
    pub tenants: Vec<wire::Tenant>,
    pub applied: Vec<wire::Action>,
    pub released: usize,
    pub observed: usize,
    pub ticks: Vec<Duration>,
    /// Actions on these cgroups hang until they are taken out.
    pub hanging: Vec<String>,
    /// How long each look takes.
    pub look_takes: Duration,
    /// What actions on these cgroups come to instead.
    pub outcomes: HashMap<String, (Outcome, &'static str)>,
    pub release_fails: usize,
    /// Every time that tasks were named.
    pub named: Vec<Vec<wire::NamedTasks>>,
    pub tick_error: Option<&'static str>,
}

/// The node of a script.
pub struct ScriptedNode {
    pub script: Arc<Script>,
    pub pace: Pace,
    pub time_us: u64,
}

pub fn tenant(cgroup: &str, cgroup_id: u64) -> wire::Tenant {
    wire::Tenant {
        cgroup: cgroup.into(),
        cgroup_id,
        policy: wire::DEFAULT_POLICY.into(),
        limit_bytes: 1 << 30,
        curves: Some(wire::Curves { generation: 1, ..Default::default() }),
        curves_generation: 1,
        trusted: true,
        ..Default::default()
    }
}

impl ScriptedNode {
    /// A node of three tenants.
    pub fn new(pace: Pace) -> (Box<Self>, Arc<Script>) {
        let script = Arc::new(Script::default());
        let tenants = [("/a", 1), ("/b", 2), ("/c", 3)];
        script.state.lock().unwrap().tenants = tenants.map(|(c, id)| tenant(c, id)).to_vec();
        (Box::new(Self { script: Arc::clone(&script), pace, time_us: 1_000_000 }), script)
    }
}

impl Script {
    pub fn applied(&self) -> Vec<String> {
        self.state.lock().unwrap().applied.iter().map(|action| action.cgroup.clone()).collect()
    }

    pub fn released(&self) -> usize {
        self.state.lock().unwrap().released
    }

    pub fn observed(&self) -> usize {
        self.state.lock().unwrap().observed
    }

    pub fn free(&self) {
        self.state.lock().unwrap().hanging.clear();
        self.freed.notify_all();
    }
}

impl Node for ScriptedNode {
    fn identity(&self) -> Identity {
        Identity {
            kind: "simulated",
            kernel: "scripted".into(),
            capabilities: vec!["policies", "limits"],
            policies: vec!["s3fifo".into()],
            boot: "scripted".into(),
        }
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn tick(&mut self, elapsed: Duration) -> Result<()> {
        self.time_us += elapsed.as_micros() as u64;
        let mut state = self.script.state.lock().unwrap();
        state.ticks.push(elapsed);
        match state.tick_error {
            Some(error) => Err(cachepilot_agent::Error::Node(error.into())),
            None => Ok(()),
        }
    }

    fn observe(&mut self) -> Result<Observation> {
        let takes = self.script.state.lock().unwrap().look_takes;
        std::thread::sleep(takes);
        let mut state = self.script.state.lock().unwrap();
        state.observed += 1;
        let tenants = state.tenants.clone();
        Ok(Observation {
            time_us: self.time_us,
            budget_bytes: 1 << 34,
            tenants,
            ..Default::default()
        })
    }

    fn apply(&mut self, action: &wire::Action) -> wire::Result {
        let mut state = self.script.state.lock().unwrap();
        while state.hanging.contains(&action.cgroup) {
            state = self.script.freed.wait(state).unwrap();
        }
        state.applied.push(action.clone());
        let worked = (Outcome::Applied, "");
        let (outcome, reason) = *state.outcomes.get(&action.cgroup).unwrap_or(&worked);
        let tenants = state.tenants.iter_mut().filter(|tenant| tenant.cgroup == action.cgroup);
        for (tenant, policy) in tenants.zip(&action.policy) {
            tenant.policy.clone_from(policy);
        }
        wire::Result {
            cgroup: action.cgroup.clone(),
            outcome: outcome.into(),
            reason: reason.into(),
            policy: action.policy.clone().unwrap_or_default(),
            limit_bytes: action.limit_bytes.unwrap_or_default(),
        }
    }

    fn name_tasks(&mut self, named: &[wire::NamedTasks]) {
        self.script.state.lock().unwrap().named.push(named.to_vec());
    }

    fn release(&mut self) -> Vec<wire::Result> {
        let mut state = self.script.state.lock().unwrap();
        state.released += 1;
        let fails = state.released <= state.release_fails;
        let outcome = if fails { Outcome::Failed } else { Outcome::Applied };
        let result = |tenant: &wire::Tenant| wire::Result {
            cgroup: tenant.cgroup.clone(),
            outcome: outcome.into(),
            ..Default::default()
        };
        state.tenants.iter().map(result).collect()
    }

    fn adopted(&self) -> Vec<String> {
        vec!["/a".into()]
    }
}
