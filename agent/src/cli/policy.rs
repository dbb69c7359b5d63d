// SPDX-License-Identifier: Apache-2.0
//! `policy ...`. Input is checked before the machine is queried.

use super::Failure;
use super::args::{Attachment, CgroupOption, DirOption, KindOption, Placement, PolicyCommand};
use super::tables;
use cachepilot_agent::cgroup::Cgroup;
use cachepilot_agent::check_kernel;
use cachepilot_agent::policies::folder::{PolicyDir, PolicyFile};
use cachepilot_agent::policies::overview::{self, Row};
use cachepilot_agent::policies::settings::{Setting, changed_words};
use cachepilot_agent::policies::verify::verify;
use cachepilot_agent::policies::{ObjectFile, Policies};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

type Outcome = Result<(), Failure>;

const ALL: &str = "all";

pub fn run(command: PolicyCommand, out: &mut impl Write) -> Outcome {
    match command {
        PolicyCommand::Attach(attachment) => attach(attachment, out),
        PolicyCommand::Swap(placement) => swap(&placement, out),
        PolicyCommand::Detach { cgroup, kind } => detach(&cgroup, &kind, out),
        PolicyCommand::Set { cgroup, settings, dir, kind } => {
            set(&cgroup, &settings, &find_dir(&dir).of(kind.kind), out)
        }
        PolicyCommand::Stat { cgroup, json, dir } => stat(&cgroup, json, &dir, out),
        PolicyCommand::Verify { policy, json, dir } => verify_policies(&policy, json, &dir, out),
    }
}

/// A placement whose parts have all been checked to exist.
struct Placed {
    cgroup: Cgroup,
    policy: PolicyFile,
    tunables: Vec<u32>,
}

impl Placed {
    fn check(placement: &Placement) -> Result<Self, Failure> {
        let settings = Setting::parse_all(&placement.settings)?;
        let (policy, values) =
            find_dir(&placement.dir).of(placement.kind.kind).resolve(&placement.policy)?;
        let tunables = changed_words(&policy.manifest, values, &settings)?;
        Ok(Self { cgroup: Cgroup::open(&placement.cgroup.dir)?, policy, tunables })
    }
}

fn find_dir(option: &DirOption) -> PolicyDir {
    PolicyDir::find(option.policies.as_deref())
}

fn attach(attachment: Attachment, out: &mut impl Write) -> Outcome {
    let Attachment { cgroup, policy, object, settings, max_entries, watch, dir, kind } = attachment;
    let (cgroup, name) = if let Some(path) = object {
        let globals = Setting::parse_all(&settings)?;
        let max_entries = Setting::parse_all(&max_entries)?;
        let cgroup = Cgroup::open(&cgroup.dir)?;
        let file = ObjectFile { path, globals, max_entries, watch };
        let policies = Policies::open()?;
        policies.sweep()?;
        let name = policies.attach_object(&cgroup, &file)?;
        (cgroup, name)
    } else {
        let policy = policy.unwrap_or_default();
        let placement = Placement { cgroup, policy, settings, dir, kind };
        let Placed { cgroup, policy, tunables } = Placed::check(&placement)?;
        let policies = Policies::open_kind(placement.kind.kind)?;
        policies.sweep()?;
        policies.attach(&cgroup, &policy, &tunables)?;
        (cgroup, policy.manifest.name)
    };
    Ok(writeln!(out, "{}: policy {name} attached", cgroup.path.display())?)
}

fn swap(placement: &Placement, out: &mut impl Write) -> Outcome {
    let Placed { cgroup, policy, tunables } = Placed::check(placement)?;
    let old = Policies::open_kind(placement.kind.kind)?.swap(&cgroup, &policy, &tunables)?;
    let name = &policy.manifest.name;
    Ok(writeln!(out, "{}: policy {name} instead of {old}", cgroup.path.display())?)
}

fn detach(cgroup: &CgroupOption, kind: &KindOption, out: &mut impl Write) -> Outcome {
    let cgroup = Cgroup::open(&cgroup.dir)?;
    let policies = Policies::open_kind(kind.kind)?;
    let old = policies.detach(&cgroup)?;
    policies.sweep()?;
    Ok(writeln!(out, "{}: policy {old} detached", cgroup.path.display())?)
}

fn set(
    cgroup: &CgroupOption,
    settings: &[String],
    dir: &PolicyDir,
    out: &mut impl Write,
) -> Outcome {
    let parsed = Setting::parse_all(settings)?;
    let cgroup = Cgroup::open(&cgroup.dir)?;
    let policy = Policies::open_kind(dir.kind())?.set(&cgroup, dir, &parsed)?;
    let settings = settings.join(" ");
    Ok(writeln!(out, "{}: policy {policy} set to {settings}", cgroup.path.display())?)
}

fn stat(path: &Path, json: bool, dir: &DirOption, out: &mut impl Write) -> Outcome {
    let dir = find_dir(dir);
    let rows = if path == Path::new(ALL) {
        overview::all(&Policies::open()?, &dir)?
    } else {
        let cgroup = Cgroup::open(path)?;
        vec![Row::of(&Policies::open()?, &dir, &cgroup)?]
    };
    if json {
        return print_json(&rows.iter().map(Row::to_json).collect::<Vec<_>>(), out);
    }
    let text = match rows.as_slice() {
        [] => "no cgroup has a policy\n".into(),
        [row] if path != Path::new(ALL) => tables::one_row(row),
        rows => tables::overview(rows),
    };
    Ok(out.write_all(text.as_bytes())?)
}

fn verify_policies(name: &str, json: bool, dir: &DirOption, out: &mut impl Write) -> Outcome {
    let dir = find_dir(dir);
    let names = if name == ALL { dir.names()? } else { vec![name.into()] };
    let files: Vec<PolicyFile> =
        names.iter().map(|name| dir.policy(name)).collect::<Result<_, _>>()?;
    check_kernel()?;
    let verdicts = files.iter().map(verify).collect::<Result<Vec<_>, _>>()?;
    if json {
        print_json(&verdicts, out)?;
    } else {
        out.write_all(tables::costs(&verdicts).as_bytes())?;
    }
    out.flush()?;
    let refused: Vec<_> = verdicts.iter().filter(|v| !v.refused.is_empty()).collect();
    for verdict in &refused {
        eprintln!("{}: refused", verdict.policy);
        for line in &verdict.refused {
            eprintln!("    {line}");
        }
    }
    if refused.is_empty() { Ok(()) } else { Err(Failure::Told) }
}

pub fn print_json(value: &impl Serialize, out: &mut impl Write) -> Outcome {
    serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}
