/* SPDX-License-Identifier: Apache-2.0 */
/* See zipfian.h. */
#include "zipfian.h"

#include <algorithm>
#include <cmath>

namespace ycsb
{

Zipfian::Zipfian(uint64_t count, double exponent)
    : count_(static_cast<double>(count)), exponent_(exponent)
{
	from_ = integral(1.5) - 1;
	to_ = integral(count_ + 0.5);
	shortcut_ = 2 - inverse_integral(integral(2.5) - density(2));
}

/* The integral of x^-exponent from 1 to x. */
double Zipfian::integral(double x) const
{
	double power = 1 - exponent_;

	if (std::abs(power) < 1e-9)
		return std::log(x);
	return std::expm1(power * std::log(x)) / power;
}

double Zipfian::inverse_integral(double y) const
{
	double power = 1 - exponent_;

	if (std::abs(power) < 1e-9)
		return std::exp(y);
	return std::exp(std::log1p(std::max(power * y, -1.0)) / power);
}

double Zipfian::density(double x) const
{
	return std::exp(-exponent_ * std::log(x));
}

uint64_t Zipfian::operator()(Random &random) const
{
	for (;;) {
		double y = to_ + unit(random) * (from_ - to_);
		double x = inverse_integral(y);
		double rank = std::clamp(std::floor(x + 0.5), 1.0, count_);

		if (rank - x <= shortcut_ || y >= integral(rank + 0.5) - density(rank))
			return static_cast<uint64_t>(rank) - 1;
	}
}

} // namespace ycsb
