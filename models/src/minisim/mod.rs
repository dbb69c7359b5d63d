// SPDX-License-Identifier: Apache-2.0
//! Miniature simulation (Waldspurger, Saemundsson, Ahmad, Park, ATC '17): a cache of C pages is
//! simulated with C * R pages over the accesses to pages sampled at rate R. All policies advance at
//! all sizes together, in one pass over the accesses.

mod bank;
mod cell;
mod counterfactual;
mod online;
mod sample;

pub use bank::{Bank, BankConfig, Sampling};
pub use counterfactual::{Counterfactuals, Totals};
pub use online::{OnlineBank, OnlineConfig};
