// SPDX-License-Identifier: Apache-2.0
//! Miss ratio curves of tenants, learnt from sampled accesses while the tenants run, and the
//! counterfactuals of policies that are not in force.

mod budget;
mod counterfactuals;
mod drift;
mod early;
mod measured;
mod predict;
mod published;
mod settings;
mod small_rate;
mod tenant;
mod trust;

pub use budget::Budget;
pub use measured::Measured;
pub use predict::{predict, publish};
pub use settings::{CurvesConfig, CurvesSettings, LEAST_SHARE_BYTES, PAGE_BYTES};
pub use tenant::{Generations, TenantCurves};
pub use trust::{Trust, TrustLimits, Window};
