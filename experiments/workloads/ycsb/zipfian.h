/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws ranks by Zipf's law, exactly, for every exponent of at least 0 (0: uniform).
 *
 * W. Hormann, G. Derflinger: "Rejection-inversion to generate variates from monotone discrete
 * distributions", ACM TOMACS 6(3), 1996. YCSB itself uses the approximation of Gray et al.
 * ("Quickly generating billion-record synthetic databases", SIGMOD '94), which needs a sum over all
 * records and an exponent below 1.
 */
#pragma once

#include <cstdint>
#include <random>

namespace ycsb
{

using Random = std::mt19937_64;

/* Returns a number in [0, 1) of 53 random bits, the same with every standard library. */
inline double unit(Random &random)
{
	return static_cast<double>(random() >> 11) * 0x1p-53;
}

class Zipfian
{
      public:
	/* Ranks are 0 to count - 1; the weight of rank r is 1 / (r + 1)^exponent. */
	Zipfian(uint64_t count, double exponent);

	uint64_t operator()(Random &random) const;

      private:
	double integral(double x) const;
	double inverse_integral(double y) const;
	double density(double x) const;

	double count_;
	double exponent_;
	double from_;
	double to_;
	double shortcut_;
};

} // namespace ycsb
