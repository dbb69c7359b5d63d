// SPDX-License-Identifier: Apache-2.0
//! Trace formats and the file suffixes that name them.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};

/// How requests are laid out, compression aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Little-endian `u64` page ids, one per request.
    U64,
    /// libCacheSim's oracleGeneral: packed 24-byte records.
    OracleGeneral,
    /// Comma-separated text with a header line.
    Csv,
    /// This project's record format, `docs/trace_format.md`.
    Cptrace,
}

/// Format of a trace file: an encoding, plain or compressed by zstd. Displayed and serialized as
/// the file suffix without its dot, for example `u64.zst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub struct Format {
    /// Layout of the requests.
    pub encoding: Encoding,
    /// Whether the file is a zstd stream.
    pub zstd: bool,
}

/// Every known suffix without `.zst`; the first of an encoding is the one displayed.
const SUFFIXES: [(&str, Encoding); 5] = [
    (".u64", Encoding::U64),
    (".oracleGeneral", Encoding::OracleGeneral),
    (".oracleGeneral.bin", Encoding::OracleGeneral),
    (".csv", Encoding::Csv),
    (".cptrace", Encoding::Cptrace),
];

impl Format {
    /// The format that the suffix of `path` names. Suffixes are case-sensitive; the file need not
    /// exist.
    ///
    /// # Errors
    /// [`Error::Format`] that lists the known suffixes when there is no match.
    pub fn from_path(path: &Path) -> Result<Self> {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let (stem, zstd) = match name.strip_suffix(".zst") {
            Some(stem) => (stem, true),
            None => (&*name, false),
        };
        SUFFIXES
            .iter()
            .find(|(suffix, _)| stem.ends_with(suffix))
            .map(|&(_, encoding)| Self { encoding, zstd })
            .ok_or_else(|| {
                Error::format(path, format!("unknown trace suffix; known: {}", known_suffixes()))
            })
    }
}

/// The known suffixes as one phrase for error messages.
fn known_suffixes() -> String {
    let plain: Vec<&str> = SUFFIXES.iter().map(|(suffix, _)| *suffix).collect();
    format!("{}, each also with .zst", plain.join(", "))
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.encoding {
            Encoding::U64 => "u64",
            Encoding::OracleGeneral => "oracleGeneral",
            Encoding::Csv => "csv",
            Encoding::Cptrace => "cptrace",
        };
        write!(f, "{name}{}", if self.zstd { ".zst" } else { "" })
    }
}

impl From<Format> for String {
    fn from(format: Format) -> Self {
        format.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Result<Format> {
        Format::from_path(Path::new(name))
    }

    #[test]
    fn every_suffix_is_recognised_plain_and_compressed() {
        for (suffix, encoding) in SUFFIXES {
            let plain = parse(&format!("dir.csv/a{suffix}")).unwrap();
            assert_eq!(plain, Format { encoding, zstd: false });
            let packed = parse(&format!("dir.csv/a.b{suffix}.zst")).unwrap();
            assert_eq!(packed, Format { encoding, zstd: true });
        }
    }

    #[test]
    fn unknown_suffixes_name_the_known_ones() {
        for name in ["trace.txt", "trace", "trace.u64.gz", "trace.zst", "u64", "a.U64", ".."] {
            let message = parse(name).unwrap_err().to_string();
            for (suffix, _) in SUFFIXES {
                assert!(message.contains(suffix), "{message}");
            }
            assert!(message.starts_with(name) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn display_is_the_suffix() {
        for name in ["u64", "u64.zst", "oracleGeneral.zst", "csv", "cptrace.zst"] {
            assert_eq!(parse(&format!("x.{name}")).unwrap().to_string(), name);
        }
        assert_eq!(parse("x.oracleGeneral.bin").unwrap().to_string(), "oracleGeneral");
    }
}
