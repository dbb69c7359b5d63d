// SPDX-License-Identifier: Apache-2.0
//! The phases of a tenant: the source of its accesses, and until when.

use super::{AccessSource, Accesses};
use crate::error::Result;
use crate::node::simulated::config::PhaseConfig;
use cachepilot_models::hash::page_hash;

enum End {
    Never,
    AfterNs(u64),
    AfterAccesses(u64),
    AfterPasses(u64),
}

struct Phase {
    source: Box<dyn AccessSource>,
    end: End,
}

impl Phase {
    fn new(config: &PhaseConfig, seed: u64) -> Result<Self> {
        let end = match (config.seconds, config.accesses, config.passes) {
            (Some(seconds), _, _) => End::AfterNs((seconds * 1e9) as u64),
            (_, Some(accesses), _) => End::AfterAccesses(accesses),
            (_, _, Some(passes)) => End::AfterPasses(passes),
            (None, None, None) => End::Never,
        };
        Ok(Self { source: super::open(&config.source, seed)?, end })
    }
}

/// The phases of one tenant, in order; the last one never ends.
pub(in super::super) struct Phases {
    phases: Vec<Phase>,
    current: usize,
    began_ns: u64,
    accesses: u64,
    passes: u64,
}

impl Phases {
    /// Opens all sources, so that mistakes in files are found at the start.
    pub(in super::super) fn new(configs: &[PhaseConfig], seed: u64, now_ns: u64) -> Result<Self> {
        let open = |(i, config)| Phase::new(config, page_hash(seed ^ i as u64));
        let phases = configs.iter().enumerate().map(open).collect::<Result<_>>()?;
        Ok(Self { phases, current: 0, began_ns: now_ns, accesses: 0, passes: 0 })
    }

    /// Replaces `out` by the next accesses of one phase, at least one and at most `count`.
    pub(in super::super) fn fill(
        &mut self,
        now_ns: u64,
        count: usize,
        out: &mut Accesses,
    ) -> Result<()> {
        out.clear();
        if self.is_over(now_ns) {
            self.current += 1;
            (self.began_ns, self.accesses, self.passes) = (now_ns, 0, 0);
        }
        let phase = &mut self.phases[self.current];
        let left = match phase.end {
            End::AfterAccesses(accesses) => accesses - self.accesses,
            End::Never | End::AfterNs(_) | End::AfterPasses(_) => u64::MAX,
        };
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        let ended = phase.source.fill(count, out)?;
        self.passes += u64::from(ended);
        self.accesses += out.len() as u64;
        Ok(())
    }

    fn is_over(&self, now_ns: u64) -> bool {
        self.current + 1 < self.phases.len()
            && match self.phases[self.current].end {
                End::Never => false,
                End::AfterNs(ns) => now_ns - self.began_ns >= ns,
                End::AfterAccesses(accesses) => self.accesses >= accesses,
                End::AfterPasses(passes) => self.passes >= passes,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::simulated::config::SourceConfig;

    fn phase(first: u64) -> PhaseConfig {
        let source = SourceConfig::Loop { pages: 5, offset: first };
        PhaseConfig { seconds: None, accesses: None, passes: None, source }
    }

    fn tens(phases: &mut Phases, now_ns: u64, count: usize) -> Vec<u64> {
        let mut out = Accesses::default();
        phases.fill(now_ns, count, &mut out).unwrap();
        out.keys.iter().map(|k| k / 10).collect()
    }

    #[test]
    fn each_end_comes_when_it_should() {
        let configs = [
            PhaseConfig { accesses: Some(3), ..phase(0) },
            PhaseConfig { passes: Some(2), ..phase(10) },
            PhaseConfig { seconds: Some(1.5), ..phase(20) },
            phase(30),
        ];
        let mut phases = Phases::new(&configs, 0, 0).unwrap();
        assert_eq!(tens(&mut phases, 0, 2), [0, 0]);
        assert_eq!(tens(&mut phases, 0, 9), [0], "three accesses in all");
        assert_eq!(tens(&mut phases, 0, 9), [1; 5], "a pass");
        assert_eq!(tens(&mut phases, 0, 9), [1; 5], "and another");
        assert_eq!(tens(&mut phases, 7, 1), [2]);
        assert_eq!(tens(&mut phases, 1_500_000_006, 1), [2]);
        assert_eq!(tens(&mut phases, 1_500_000_007, 1), [3]);
        assert_eq!(tens(&mut phases, u64::MAX, 1), [3], "for ever");
        assert_eq!(phases.current, 3);
    }
}
