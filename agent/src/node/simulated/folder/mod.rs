// SPDX-License-Identifier: Apache-2.0
//! A folder of tenants and of lists of pages: what its files say, and what is wrong with them.

pub(super) mod definitions;
pub(super) mod files;
pub(super) mod page_files;
mod page_list;
