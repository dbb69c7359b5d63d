// SPDX-License-Identifier: Apache-2.0
//! Miniature simulation (Waldspurger, Saemundsson, Ahmad, Park, ATC '17): a cache of C pages is
//! simulated with C * R pages over the accesses to pages sampled at rate R. All policies advance at
//! all sizes together, in one pass over the accesses.

mod bank;
mod bars;
mod beyond;
mod cell;
mod change;
mod counterfactual;
mod duty;
mod half_life;
mod lru_grid;
mod online;
mod recent;
mod sample;
mod small_sample;
mod steps;
mod two_phase;

pub use bank::{Bank, BankConfig, Sampling};
pub use counterfactual::{Counterfactuals, Totals};
pub use online::{OnlineBank, OnlineConfig};
