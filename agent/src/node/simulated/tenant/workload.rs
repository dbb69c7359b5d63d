// SPDX-License-Identifier: Apache-2.0
//! A closed loop of operations. An operation makes its accesses one after another, where a hit
//! takes no time and a miss waits for the device. Then it works for its service time and ends, and
//! the next one begins. Operations do not compete for CPUs. A page is resident from its miss on, so
//! two operations never wait for the same read.

use super::counters::Counters;
use super::stream::Stream;
use crate::error::Result;
use crate::node::simulated::device::Device;

#[derive(Debug, Clone, Copy)]
enum State {
    /// Not yet begun.
    Idle,
    Reading {
        submitted_ns: u64,
        refault: bool,
    },
    Serving,
}

#[derive(Debug, Clone, Copy)]
struct Operation {
    began_ns: u64,
    accesses_left: u32,
    state: State,
}

/// Operations whose tenant is gone. The device still serves their reads.
pub(in super::super) struct Abandoned(Vec<Operation>);

impl Abandoned {
    /// The last turn of an operation.
    pub(in super::super) fn turn(&self, number: u32, now_ns: u64, device: &mut Device) {
        if let State::Reading { submitted_ns, .. } = self.0[number as usize].state {
            device.complete(submitted_ns, now_ns);
        }
    }
}

/// The operations of one tenant.
pub(in super::super) struct Workload {
    pub(super) stream: Stream,
    pub(super) counters: Counters,
    operations: Vec<Operation>,
    accesses_per_op: u32,
    service_ns: u64,
}

impl Workload {
    pub(super) fn new(
        stream: Stream,
        concurrency: u32,
        accesses_per_op: u32,
        service_ns: u64,
    ) -> Self {
        let idle = Operation { began_ns: 0, accesses_left: 0, state: State::Idle };
        let operations = vec![idle; concurrency as usize];
        Self { stream, counters: Counters::new(), operations, accesses_per_op, service_ns }
    }

    /// The time of each operation's first turn, spread over a service time.
    pub(in super::super) fn first_turns(&self, now_ns: u64) -> impl Iterator<Item = u64> {
        let (count, service_ns) = (self.operations.len() as u64, self.service_ns);
        (0..count).map(move |i| now_ns + i * service_ns / count)
    }

    /// Continues an operation whose read or service has ended. Returns the time of its next turn.
    pub(in super::super) fn turn(
        &mut self,
        number: u32,
        now_ns: u64,
        device: &mut Device,
    ) -> Result<u64> {
        let mut operation = self.operations[number as usize];
        match operation.state {
            State::Idle => self.begin(&mut operation, now_ns),
            State::Reading { submitted_ns, refault } => {
                device.complete(submitted_ns, now_ns);
                self.read_ended(refault, now_ns);
            }
            State::Serving => {
                self.counters.operation(now_ns - operation.began_ns, self.service_ns);
                self.begin(&mut operation, now_ns);
            }
        }
        let next_ns = self.go_on(&mut operation, now_ns, device)?;
        self.operations[number as usize] = operation;
        Ok(next_ns)
    }

    /// Ends all operations in their present state.
    pub(in super::super) fn abandon(&self) -> Abandoned {
        Abandoned(self.operations.clone())
    }

    /// The last turn of an operation that does not continue. Its read, if any, has ended.
    pub(in super::super) fn last_turn(&mut self, number: u32, now_ns: u64, device: &mut Device) {
        let state = &mut self.operations[number as usize].state;
        if let State::Reading { submitted_ns, refault } = *state {
            *state = State::Idle;
            device.complete(submitted_ns, now_ns);
            self.read_ended(refault, now_ns);
        }
    }

    fn begin(&self, operation: &mut Operation, now_ns: u64) {
        operation.began_ns = now_ns;
        operation.accesses_left = self.accesses_per_op;
    }

    fn read_ended(&mut self, refault: bool, now_ns: u64) {
        self.counters.block_reads += 1;
        self.counters.io.leave(now_ns);
        if refault {
            self.counters.memory.leave(now_ns);
        }
    }

    fn go_on(
        &mut self,
        operation: &mut Operation,
        now_ns: u64,
        device: &mut Device,
    ) -> Result<u64> {
        let counters = &mut self.counters;
        while operation.accesses_left > 0 {
            let fate = self.stream.next(now_ns)?;
            operation.accesses_left -= 1;
            counters.accesses += 1;
            if !fate.miss {
                continue;
            }
            counters.misses += 1;
            counters.refaults += u64::from(fate.refault);
            counters.evictions += u64::from(fate.evictions);
            counters.io.enter(now_ns);
            if fate.refault {
                counters.memory.enter(now_ns);
            }
            operation.state = State::Reading { submitted_ns: now_ns, refault: fate.refault };
            return Ok(device.submit(now_ns));
        }
        operation.state = State::Serving;
        Ok(now_ns + self.service_ns)
    }
}
