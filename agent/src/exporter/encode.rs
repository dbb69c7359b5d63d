// SPDX-License-Identifier: Apache-2.0
//! Families of constant metrics: names and help texts as in a registry, values from an observation.

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt::Result;

/// Writes one family after the other.
pub struct Families<'a>(pub DescriptorEncoder<'a>);

impl Families<'_> {
    /// Writes a counter for every `(labels, value)`. The encoder adds `_total` to its name.
    pub fn counter<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        (name, help, unit): (&str, &str, Option<&Unit>),
        values: impl Iterator<Item = (L, V)>,
    ) -> Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        for (labels, value) in values {
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// Writes a gauge for every `(labels, value)`.
    pub fn gauge<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        (name, help, unit): (&str, &str, Option<&Unit>),
        values: impl Iterator<Item = (L, V)>,
    ) -> Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Writes a counter of the node as a whole.
    pub fn one_counter<V: EncodeCounterValue>(
        &mut self,
        (name, help, unit): (&str, &str, Option<&Unit>),
        value: V,
    ) -> Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// Writes a gauge of the node as a whole.
    pub fn one_gauge(
        &mut self,
        (name, help, unit): (&str, &str, Option<&Unit>),
        value: f64,
    ) -> Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        family.encode_gauge(&value)
    }

    /// Writes a histogram for every `(labels, sum, count, buckets)`. A bucket is its upper bound
    /// and the count in it.
    pub fn histogram<L: EncodeLabelSet>(
        &mut self,
        (name, help, unit): (&str, &str, Option<&Unit>),
        values: impl Iterator<Item = (L, f64, u64, Vec<(f64, u64)>)>,
    ) -> Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        for (labels, sum, count, buckets) in values {
            let mut metric = family.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}
