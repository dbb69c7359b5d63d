// SPDX-License-Identifier: Apache-2.0
//! Converts a trace from any readable format to one that this crate writes.

use std::path::Path;

use super::format::{Encoding, Format};
use super::record::{Header, Record};
use super::writer::cannot_write;
use super::{Chunk, KeyWriter, OpenOptions, RecordReader, RecordWriter, TraceReader, open};
use crate::error::Result;

/// Callback that receives the share done, 0 to 1, once per chunk. An error from it ends the work.
pub type Progress<'a> = &'a mut dyn FnMut(f64) -> Result<()>;

/// Copies the requests of `src` to `dst` and returns their number. `dst` is `.u64[.zst]` or
/// `.cptrace[.zst]`. An existing `dst` is replaced, but only after everything succeeded.
///
/// A `.u64` file gets the page keys only. A `.cptrace` file gets the records of another `.cptrace`
/// unchanged. From any other format, `index` is the page key (the header says so), `time_ns` is the
/// time since the start of the trace if the source has times, and every other field is 0 and marked
/// absent.
///
/// # Errors
/// Those of [`open`] and of the writers; [`Error::Format`] when `dst` is not a format that this
/// crate writes; whatever `progress` returns. In case of an error, `dst` stays as it was.
pub fn convert(src: &Path, dst: &Path, options: &OpenOptions, progress: Progress) -> Result<u64> {
    match Format::from_path(dst)?.encoding {
        Encoding::U64 => to_keys(open(src, options)?.as_mut(), dst, progress),
        Encoding::Cptrace => to_records(src, dst, options, progress),
        _ => Err(cannot_write(dst)),
    }
}

fn to_keys(reader: &mut dyn TraceReader, dst: &Path, progress: Progress) -> Result<u64> {
    let mut writer = KeyWriter::create(dst)?;
    let mut chunk = Chunk::default();
    loop {
        reader.next_chunk(&mut chunk)?;
        if chunk.keys.is_empty() {
            return writer.finish();
        }
        writer.write(&chunk.keys)?;
        progress(reader.progress())?;
    }
}

fn to_records(src: &Path, dst: &Path, options: &OpenOptions, progress: Progress) -> Result<u64> {
    let format = options.detect(src)?;
    if format.encoding == Encoding::Cptrace {
        options.check(format.encoding)?;
        return copy_records(&mut RecordReader::open_as(src, format.compression)?, dst, progress);
    }
    let mut reader = open(src, options)?;
    let mut chunk = Chunk::default();
    reader.next_chunk(&mut chunk)?;
    let header = Header {
        opaque_keys: true,
        has_times: !chunk.times_ns.is_empty(),
        has_tasks: !chunk.tasks.is_empty(),
        has_directions: false,
    };
    let mut writer = RecordWriter::create(dst, header)?;
    let mut records = Vec::new();
    while !chunk.keys.is_empty() {
        records.clear();
        records.extend(chunk.keys.iter().enumerate().map(|(i, &key)| Record {
            index: key,
            time_ns: chunk.times_ns.get(i).copied().unwrap_or(0),
            task: chunk.tasks.get(i).copied().unwrap_or(0),
            ..Record::default()
        }));
        writer.write(&records)?;
        progress(reader.progress())?;
        reader.next_chunk(&mut chunk)?;
    }
    writer.finish()
}

fn copy_records(reader: &mut RecordReader, dst: &Path, progress: Progress) -> Result<u64> {
    let mut writer = RecordWriter::create(dst, reader.header())?;
    let mut records = Vec::new();
    loop {
        reader.next_records(&mut records)?;
        if records.is_empty() {
            return writer.finish();
        }
        writer.write(&records)?;
        progress(reader.progress())?;
    }
}
