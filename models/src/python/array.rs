// SPDX-License-Identifier: Apache-2.0
//! Reads arrays of Python during a long call, without the interpreter lock.
//!
//! Other threads may write to such an array at any time, even while this thread has the lock, since
//! numpy releases it. Therefore no slice of the array is ever created. Elements are copied piece by
//! piece, each read once as an atomic, and the work is done on the copies. If the array is written
//! during the call, the call sees the old or the new value of each element.

use super::ModelsError;
use crate::error::{Error, Result};
use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of elements copied at a time. It is small enough for the processor's caches, and large
/// enough that waiting for the lock, if another thread runs Python code, is a small part of the
/// work on them.
const PIECE: usize = 1 << 17;

/// An element that can be read as an atomic.
pub(super) trait Word: Element + Copy {
    /// Reads one element.
    ///
    /// # Safety
    /// `at` points to an element and is aligned.
    unsafe fn read(at: *mut Self) -> Self;
}

impl Word for u64 {
    unsafe fn read(at: *mut Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { AtomicU64::from_ptr(at) }.load(Ordering::Relaxed)
    }
}

impl Word for u32 {
    unsafe fn read(at: *mut Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { AtomicU32::from_ptr(at) }.load(Ordering::Relaxed)
    }
}

impl Word for i64 {
    unsafe fn read(at: *mut Self) -> Self {
        // SAFETY: guaranteed by the caller, for a type of the same size and alignment.
        unsafe { u64::read(at.cast()) }.cast_signed()
    }
}

impl Word for f64 {
    unsafe fn read(at: *mut Self) -> Self {
        // SAFETY: guaranteed by the caller, for a type of the same size and alignment.
        Self::from_bits(unsafe { u64::read(at.cast()) })
    }
}

/// A one-dimensional, contiguous and aligned array that is kept alive.
pub(super) struct Held<T> {
    array: Py<PyArray1<T>>,
    len: usize,
}

impl<T: Word> Held<T> {
    /// Keeps `array` alive. Returns an error if there are gaps between its elements.
    pub(super) fn new(array: &Bound<'_, PyArray1<T>>) -> PyResult<Self> {
        let held = Self { array: array.clone().unbind(), len: array.len() };
        held.start(array.py()).map_err(|e| ModelsError::new_err(e.to_string()))?;
        Ok(held)
    }

    /// Returns the number of elements when the call began.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns a pointer to the first element. It is valid while the interpreter lock is held.
    fn start(&self, py: Python<'_>) -> Result<*mut T> {
        let array = self.array.bind(py);
        let (len, start) = (array.len(), array.data());
        if len != self.len {
            let message = format!("changed its length from {} to {len} during the call", self.len);
            return Err(Error::argument("array", message));
        }
        if !array.is_c_contiguous() || !start.is_aligned() {
            return Err(Error::argument("array", "is not contiguous and aligned"));
        }
        Ok(start)
    }

    /// Replaces `piece` by the elements from `from` on, at most [`PIECE`] of them.
    fn copy(&self, from: usize, piece: &mut Vec<T>) -> Result<()> {
        piece.clear();
        Python::attach(|py| {
            let start = self.start(py)?;
            let range = from..self.len.min(from + PIECE);
            // SAFETY: the elements are within the array, which is aligned and cannot be resized
            // while the lock is held.
            piece.extend(range.map(|at| unsafe { T::read(start.add(at)) }));
            Ok(())
        })
    }

    /// Returns a copy of all elements.
    pub(super) fn to_vec(&self) -> Result<Vec<T>> {
        let mut all = Vec::with_capacity(self.len);
        self.for_each_piece(|_, piece| {
            all.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(all)
    }

    /// Calls `each` with consecutive elements and the index of the first of them.
    pub(super) fn for_each_piece(
        &self,
        mut each: impl FnMut(usize, &[T]) -> Result<()>,
    ) -> Result<()> {
        let mut piece = Vec::with_capacity(self.len.min(PIECE));
        for from in (0..self.len).step_by(PIECE) {
            self.copy(from, &mut piece)?;
            each(from, &piece)?;
        }
        Ok(())
    }

    /// Like [`Self::for_each_piece`], for two arrays of equal length. If the second array is
    /// missing, `each` gets an empty slice for it.
    pub(super) fn for_each_pair<U: Word>(
        &self,
        other: Option<&Held<U>>,
        mut each: impl FnMut(usize, &[T], &[U]) -> Result<()>,
    ) -> Result<()> {
        let mut others = Vec::new();
        self.for_each_piece(|from, piece| {
            if let Some(other) = other {
                other.copy(from, &mut others)?;
            }
            each(from, piece, &others)
        })
    }
}
