// SPDX-License-Identifier: Apache-2.0
//! Miss ratio curves of tenants, learnt while they run.

mod budget;
mod drift;
mod predict;
mod published;
mod settings;
mod small_rate;
mod tenant;
mod trust;

pub use budget::Budget;
pub use predict::{predict, publish};
pub use settings::{CurvesConfig, CurvesSettings, PAGE_BYTES};
pub use tenant::{Measured, TenantCurves};
pub use trust::{Trust, TrustLimits, Window};
