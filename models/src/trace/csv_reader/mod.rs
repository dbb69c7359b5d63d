// SPDX-License-Identifier: Apache-2.0
//! Traces as comma-separated text: a header line, then one request per row.

mod keys;
mod ranges;
mod rows;

pub(super) use keys::KeyReader;
pub(super) use ranges::RangeReader;
