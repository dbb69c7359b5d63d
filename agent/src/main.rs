// SPDX-License-Identifier: Apache-2.0
//! The command `cachepilot-agent`; also run as `cachepilot policy ...`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
