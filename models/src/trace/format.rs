// SPDX-License-Identifier: Apache-2.0
//! Trace formats and the file suffixes that name them.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};

/// Layout of the requests, without compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Little-endian `u64` page ids, one per request.
    U64,
    /// libCacheSim's oracleGeneral: packed 24-byte records.
    OracleGeneral,
    /// libCacheSim's lcs, versions 1 to 8: a header and packed records.
    Lcs,
    /// VMware's vscsiStats, versions 1 and 2: binary block accesses.
    Vscsi,
    /// Block accesses as the comma-separated text of the MSR Cambridge traces.
    Msr,
    /// Ranges of blocks as text, in the format published by the authors of ARC.
    Arc,
    /// One block per line, in the format published by the authors of LIRS.
    Lirs,
    /// Comma-separated text with a header line.
    Csv,
    /// This project's record format, `docs/reference/trace_format.md`.
    Cptrace,
}

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not compressed.
    None,
    /// One or more zstd frames.
    Zstd,
    /// One or more gzip members.
    Gzip,
}

/// Format of a trace file: an encoding, plain or compressed. Displayed and serialized as the file
/// suffix without its dot, for example `u64.zst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub struct Format {
    /// Layout of the requests.
    pub encoding: Encoding,
    /// Compression of the file.
    pub compression: Compression,
}

/// Every known suffix without compression. The first suffix of an encoding is the one displayed. A
/// suffix comes before those that it ends with.
const SUFFIXES: [(&str, Encoding); 13] = [
    (".u64", Encoding::U64),
    (".oracleGeneral", Encoding::OracleGeneral),
    (".oracleGeneral.bin", Encoding::OracleGeneral),
    (".lcs", Encoding::Lcs),
    (".vscsi", Encoding::Vscsi),
    (".msr", Encoding::Msr),
    (".msr.csv", Encoding::Msr),
    (".arc", Encoding::Arc),
    (".lis", Encoding::Arc),
    (".lirs", Encoding::Lirs),
    (".trc", Encoding::Lirs),
    (".csv", Encoding::Csv),
    (".cptrace", Encoding::Cptrace),
];

const COMPRESSED: [(&str, Compression); 2] =
    [(".zst", Compression::Zstd), (".gz", Compression::Gzip)];

impl Encoding {
    /// Returns the name of the encoding, which is its first suffix without the dot.
    #[must_use]
    pub fn name(self) -> &'static str {
        let own = SUFFIXES.iter().find(|(_, encoding)| *encoding == self);
        own.map_or("", |(suffix, _)| &suffix[1..])
    }

    fn of_suffix(name: &str) -> Option<Self> {
        SUFFIXES.iter().find(|(suffix, _)| name.ends_with(suffix)).map(|&(_, encoding)| encoding)
    }

    /// Returns whether a record is a range of bytes, which may cover any number of pages. A CSV
    /// file also has ranges if a column with offsets is named, which the caller checks.
    #[must_use]
    pub fn has_ranges(self) -> bool {
        matches!(self, Self::Vscsi | Self::Msr | Self::Arc)
    }
}

impl Format {
    /// Returns the format that the suffix of `path` names. Suffixes are case-sensitive. The file
    /// need not exist.
    ///
    /// # Errors
    /// [`Error::Format`] that lists the known suffixes when there is no match.
    pub fn from_path(path: &Path) -> Result<Self> {
        let (stem, compression) = unpacked(path);
        match Encoding::of_suffix(&stem) {
            Some(encoding) => Ok(Self { encoding, compression }),
            None => {
                let known = known_suffixes();
                let message =
                    format!("unknown trace suffix; known: {known}; --format names the format");
                Err(Error::format(path, message))
            }
        }
    }

    /// Returns the format called `name`, which is a suffix without its dot, such as `msr` or
    /// `msr.gz`. If the name has no compression, the suffix of `path` decides it.
    ///
    /// # Errors
    /// [`Error::Argument`] that lists the known names when there is no match.
    pub fn named(name: &str, path: &Path) -> Result<Self> {
        let dotted = format!(".{name}");
        let (stem, given) = strip_compression(&dotted);
        let encoding = SUFFIXES.iter().find(|(suffix, _)| *suffix == stem);
        let compression = match given {
            Compression::None => unpacked(path).1,
            given => given,
        };
        match encoding {
            Some(&(_, encoding)) => Ok(Self { encoding, compression }),
            None => {
                let known: Vec<&str> = SUFFIXES.iter().map(|(suffix, _)| &suffix[1..]).collect();
                let known = known.join(", ");
                let message = format!("unknown format {name:?}; known: {known}, also .zst or .gz");
                Err(Error::argument("format", message))
            }
        }
    }
}

/// Returns the file name of `path` without the suffix of a compression, and that compression.
fn unpacked(path: &Path) -> (String, Compression) {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let (stem, compression) = strip_compression(&name);
    (stem.to_owned(), compression)
}

fn strip_compression(name: &str) -> (&str, Compression) {
    let stripped = COMPRESSED.iter().find_map(|&(suffix, c)| Some((name.strip_suffix(suffix)?, c)));
    stripped.unwrap_or((name, Compression::None))
}

/// Returns the known suffixes as one phrase for error messages.
fn known_suffixes() -> String {
    let plain: Vec<&str> = SUFFIXES.iter().map(|(suffix, _)| *suffix).collect();
    format!("{}, each also with .zst or .gz", plain.join(", "))
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packed = COMPRESSED.iter().find(|(_, compression)| *compression == self.compression);
        write!(f, "{}{}", self.encoding.name(), packed.map_or("", |(suffix, _)| suffix))
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

    fn packings() -> impl Iterator<Item = (&'static str, Compression)> {
        COMPRESSED.into_iter().chain([("", Compression::None)])
    }

    #[test]
    fn every_suffix_is_recognised_plain_and_compressed() {
        for (suffix, encoding) in SUFFIXES {
            for (packed, compression) in packings() {
                let expected = Format { encoding, compression };
                assert_eq!(parse(&format!("dir.csv/a.b{suffix}{packed}")).unwrap(), expected);
                let name = format!("{}{packed}", &suffix[1..]);
                let named = Format::named(&name, Path::new("a.u64")).unwrap();
                assert_eq!(named, expected, "{name}");
            }
        }
    }

    #[test]
    fn unknown_suffixes_name_the_known_ones() {
        for name in ["trace.txt", "trace", "trace.u64.xz", "trace.zst", "u64", "a.U64", ".."] {
            let message = parse(name).unwrap_err().to_string();
            for (suffix, _) in SUFFIXES {
                assert!(message.contains(suffix), "{message}");
            }
            assert!(message.starts_with(name) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn display_is_the_suffix() {
        for name in ["u64", "u64.zst", "oracleGeneral.gz", "csv", "cptrace.zst", "msr", "lirs"] {
            assert_eq!(parse(&format!("x.{name}")).unwrap().to_string(), name);
        }
        assert_eq!(parse("x.oracleGeneral.bin").unwrap().to_string(), "oracleGeneral");
        assert_eq!(parse("prxy_0.msr.csv.gz").unwrap().to_string(), "msr.gz");
    }

    #[test]
    fn a_named_format_keeps_the_compression_of_the_file() {
        let named = |name, path| Format::named(name, Path::new(path)).unwrap().to_string();
        assert_eq!(named("msr", "prxy_0.csv.gz"), "msr.gz");
        assert_eq!(named("msr.zst", "prxy_0.csv.gz"), "msr.zst");
        assert_eq!(named("lirs", "blocks.txt"), "lirs");
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        for name in ["", "csv.xz", "MSR", ".msr", "zst", "spc"] {
            let message = Format::named(name, Path::new("a.csv")).unwrap_err().to_string();
            for (suffix, _) in SUFFIXES {
                assert!(message.contains(&suffix[1..]), "{message}");
            }
            assert!(message.starts_with("format: unknown format"), "{message}");
        }
    }
}
