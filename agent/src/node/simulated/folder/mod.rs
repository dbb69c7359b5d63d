// SPDX-License-Identifier: Apache-2.0
//! A folder of tenants and of lists of pages: reads its files, and reports what is wrong with them.

pub(super) mod definitions;
pub(super) mod files;
pub(super) mod page_files;
mod page_list;
