// SPDX-License-Identifier: Apache-2.0
//! The command line: its commands, and how their results are printed.

mod advise;
mod args;
mod cachestat;
mod colours;
mod daemon;
mod doctor;
mod pages;
mod policy;
mod record;
mod release;
mod stop;
mod tables;

use args::{Arguments, Command};
use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const BAD_INPUT: u8 = 2;
/// The exit status that a shell reports for a program ended by SIGPIPE: 128 plus the number of the
/// signal.
const BROKEN_PIPE: u8 = 141;

/// Why a command ended early.
enum Failure {
    /// An error to print in one line.
    Error(cachepilot_agent::Error),
    /// A failure that was printed already.
    Told,
    /// An error of stdout: its reader went away, or its file system is full.
    Output(io::Error),
}

impl From<cachepilot_agent::Error> for Failure {
    fn from(error: cachepilot_agent::Error) -> Self {
        Self::Error(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Runs one command line. The exit status is 0 on success, 2 after bad input, and 1 if this machine
/// cannot do it; a failure prints one line to stderr. The status is 141, like that of a program
/// ended by SIGPIPE, if the reader of stdout went away, as `head` does.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let program = arguments.first().map(Path::new).and_then(Path::file_name);
    let program = program.map_or("cachepilot-agent".into(), |p| p.to_string_lossy().into_owned());
    let parsed = match Arguments::try_parse_from(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return explain(&program, &error),
    };
    let mut out = io::stdout().lock();
    let result = match parsed.command {
        Command::Policy { command } => policy::run(command, &mut out),
        Command::CheckConfig { config, json } => daemon::check_config(&config.file, json, &mut out),
        Command::Metrics => daemon::metrics(&mut out),
        Command::Run { config, log_level } => daemon::run(&config.file, log_level),
        Command::Release(options) => release::run(&options, &mut out),
        Command::Record(options) => record::run(&options, &mut out),
        Command::Cachestat(options) => cachestat::run(&options, &mut out),
        Command::Advise(options) => advise::run(&options),
        Command::Pages { command } => pages::run(&command, &mut out),
        Command::Doctor(options) => doctor::run(&options, &mut out),
        Command::DoctorCanary { file } => doctor::canary(&file),
    };
    let result = result.and_then(|()| Ok(out.flush()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Told) => ExitCode::FAILURE,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::from(BROKEN_PIPE)
        }
        Err(Failure::Output(error)) => {
            eprintln!("{program}: error: stdout: {error}");
            ExitCode::FAILURE
        }
        Err(Failure::Error(error)) => {
            eprintln!("{program}: error: {}", one_line(&error.to_string()));
            ExitCode::from(error.exit_status())
        }
    }
}

/// Prints help and versions as they are, and anything else in one line.
fn explain(program: &str, error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    // Text after the first empty line only repeats the usage.
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "expected a command; see --help",
        _ => message.trim_start_matches("error: "),
    };
    eprintln!("{program}: error: {}", one_line(message));
    ExitCode::from(BAD_INPUT)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
