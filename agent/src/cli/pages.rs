// SPDX-License-Identifier: Apache-2.0
//! `pages ...`: lists the pages that a cgroup has in memory, and reads them on another node.

use super::Failure;
use super::args::PagesCommand;
use super::policy::print_json;
use cachepilot_agent::Error;
use cachepilot_agent::cgroup::Cgroup;
use cachepilot_agent::pages::PAGE_BYTES;
use cachepilot_agent::pages::format::ListReader;
use cachepilot_agent::pages::list::{PageList, Written, mib};
use cachepilot_agent::pages::read::{PagesRead, read};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

const MIB_PAGES: u64 = (1 << 20) / PAGE_BYTES;

pub fn run(command: &PagesCommand, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        PagesCommand::List { cgroup, below, most_mib } => {
            let found = PageList::of_cgroup(&Cgroup::open(&cgroup.dir)?, below)?;
            list(&found, *most_mib, out)
        }
        PagesCommand::Read { cgroup, json, file } => {
            let list = open(file.as_ref())?;
            if let Some(dir) = cgroup {
                Cgroup::open(dir)?.join()?;
            }
            let name = file.as_deref().unwrap_or(Path::new("standard input"));
            tell_read(&read(&mut ListReader::new(list, name))?, *json, out)
        }
    }
}

fn list(found: &PageList, most_mib: Option<u32>, out: &mut impl Write) -> Result<(), Failure> {
    let most = most_mib.map(|mib| u64::from(mib) * MIB_PAGES);
    let written = found.write(most, BufWriter::new(out))?;
    eprintln!("{}", listed(found, written));
    Ok(())
}

fn listed(found: &PageList, written: Written) -> String {
    let Written { files, pages, beyond_most, no_room } = written;
    let left_out = [
        (beyond_most, "pages beyond --most-mib"),
        (no_room, "pages beyond the ranges of a list"),
        (found.unasked, "pages behind the first TiB of files, cached or not"),
        (found.not_opened.deleted, "deleted files"),
        (found.not_opened.unnamed, "files that a list cannot name"),
        (found.not_opened.refused, "files that cannot be opened or mapped"),
    ];
    let listed = format!("{pages} pages ({:.1} MiB) of {files} files", mib(pages));
    with_rest(listed, "not listed", &left_out)
}

fn open(file: Option<&PathBuf>) -> Result<Box<dyn BufRead>, Failure> {
    Ok(match file {
        Some(path) => Box::new(BufReader::new(File::open(path).map_err(Error::io(path))?)),
        None => Box::new(io::stdin().lock()),
    })
}

fn tell_read(done: &PagesRead, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let PagesRead { pages, missing, not_regular, past_end, failed, first_failure } = done;
    if json {
        return print_json(
            &json!({
                "pages": pages,
                "missing": missing,
                "not_regular": not_regular,
                "past_end": past_end,
                "failed": failed,
                "first_failure": first_failure,
            }),
            out,
        );
    }
    let why = first_failure.as_deref().unwrap_or_default();
    let why = format!("that failed, the first with {why}");
    let rest = [
        (*missing, "of missing files"),
        (*not_regular, "of what is no regular file"),
        (*past_end, "past the end of files"),
        (*failed, why.as_str()),
    ];
    let read = format!("{pages} pages ({:.1} MiB) read", mib(*pages));
    Ok(writeln!(out, "{}", with_rest(read, "not read", &rest))?)
}

/// Adds to a text those counts that are not zero.
fn with_rest(mut done: String, rest: &str, counts: &[(u64, &str)]) -> String {
    let told = counts.iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told.map(|(count, what)| format!("{count} {what}")).collect();
    if !told.is_empty() {
        done += &format!("; {rest}: {}", told.join(", "));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(done: &PagesRead) -> String {
        let mut out = Vec::new();
        assert!(tell_read(done, false, &mut out).is_ok());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pages_that_were_not_read_are_counted_in_the_same_line() {
        let mut done = PagesRead { pages: 640, ..PagesRead::default() };
        assert_eq!(told(&done), "640 pages (2.5 MiB) read\n");
        done.past_end = 3;
        done.failed = 2;
        done.first_failure = Some("/f: Input/output error".into());
        let rest = "3 past the end of files, 2 that failed, the first with /f: Input/output error";
        assert_eq!(told(&done), format!("640 pages (2.5 MiB) read; not read: {rest}\n"));
    }

    #[test]
    fn pages_that_were_not_listed_are_counted_in_the_same_line() {
        let mut found = PageList::default();
        let mut written = Written { files: 7, pages: 256, ..Written::default() };
        assert_eq!(listed(&found, written), "256 pages (1.0 MiB) of 7 files");
        written.beyond_most = 5;
        found.not_opened.deleted = 1;
        let rest = "5 pages beyond --most-mib, 1 deleted files";
        let expected = format!("256 pages (1.0 MiB) of 7 files; not listed: {rest}");
        assert_eq!(listed(&found, written), expected);
    }
}
