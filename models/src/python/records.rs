// SPDX-License-Identifier: Apache-2.0
//! Whole records for Python, as structured numpy arrays with the layout of the file.

use super::array::Held;
use crate::error::{Error, Result};
use crate::trace::{Header, RECORD_BYTES, Record, RecordReader, RecordWriter};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use std::path::Path;

/// Names and numpy types of the fields of a record, `docs/reference/trace_format.md`.
const FIELDS: [(&str, &str); 8] = [
    ("time_ns", "<u8"),
    ("cgroup", "<u8"),
    ("inode", "<u8"),
    ("index", "<u8"),
    ("device", "<u4"),
    ("generation", "<u4"),
    ("task", "<u4"),
    ("flags", "<u4"),
];

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(record_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(write_records, module)?)?;
    module.add_function(wrap_pyfunction!(read_records, module)?)
}

#[pyfunction]
fn record_dtype(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("numpy")?.call_method1("dtype", (FIELDS.to_vec(),))
}

#[pyfunction]
fn write_records(py: Python<'_>, path: &str, records: &Bound<'_, PyAny>) -> PyResult<u64> {
    if !records.getattr("dtype")?.eq(record_dtype(py)?)? {
        return Err(Error::argument("records", "the array is not of record_dtype()").into());
    }
    let words: Bound<'_, PyArray1<u64>> = records.call_method1("view", ("u8",))?.extract()?;
    let words = Held::new(&words)?;
    Ok(py.detach(|| write(Path::new(path), &words))?)
}

/// Writes records that are given as words, in the byte order of the machine.
fn write(path: &Path, words: &Held<u64>) -> Result<u64> {
    let mut writer = RecordWriter::create(path, Header::FULL)?;
    let (mut number, mut bytes) = (0, Vec::new());
    words.for_each_piece(|_, piece| {
        bytes.extend(piece.iter().flat_map(|word| word.to_ne_bytes()));
        let (rows, rest) = bytes.as_chunks::<RECORD_BYTES>();
        for row in rows {
            let refuse = |message| Error::argument("records", format!("record {number} {message}"));
            writer.write(&[Record::decode(row).map_err(refuse)?])?;
            number += 1;
        }
        bytes = rest.to_vec();
        Ok(())
    })?;
    writer.finish()
}

#[pyfunction]
fn read_records<'py>(py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let bytes = py.detach(|| read(Path::new(path)))?;
    bytes.into_pyarray(py).call_method1("view", (record_dtype(py)?,))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut reader = RecordReader::open(path)?;
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    loop {
        reader.next_records(&mut records)?;
        if records.is_empty() {
            return Ok(bytes);
        }
        bytes.extend(records.iter().flat_map(Record::encode));
    }
}
