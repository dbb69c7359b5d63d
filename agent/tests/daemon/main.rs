// SPDX-License-Identifier: Apache-2.0
//! The agent against a real gRPC server whose controller is scripted, and a scripted node.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod agent;
mod command_line;
mod controller;
mod damaged_state;
mod faults;
mod hour;
mod kills;
mod leases;
mod lockstep;
mod node;
mod overdue;
mod sessions;
mod tls;
mod trials;
