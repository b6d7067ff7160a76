// How far rounding may take a whole model from the double-precision reference. No bound worth having can be
// written down for some hundred operations in a row, so the errors are drawn: the reference runs several
// times with every stored array moved at random by as much as the engine's rounding can move it, and the
// spread of the results is the standard deviation of an honest result (the idea of CESTAC, Vignes 1993, "A
// stochastic arithmetic for reliable scientific computation").
#pragma once

#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/common/cases.h"
#include "tests/support/reference_model.h"

namespace genesis {

// Moves each element by a random share of: the roundoff of the type it is stored in, and what the sum of its
// products loses, against the array's largest element (roundings of a sum add up like a random walk).
class RandomRounding {
 public:
  RandomRounding(DType dtype, uint64_t seed) : dtype_(dtype), random_(seed) {}

  void operator()(std::vector<double>& values, const ReferenceModel<double>::Making& making) {
    const double relative = unit_roundoff(making.in_f32 ? DType::f32 : dtype_);
    const double of_factors = making.narrow_factors ? unit_roundoff(dtype_) : 0;
    const double of_sum = unit_roundoff(DType::f32) * std::sqrt(double(making.terms));
    const double absolute = (of_factors + of_sum) * largest(values);
    for (double& v : values) {
      const double share = double(random_() >> 11) * 0x1p-52 - 1;  // in [-1, 1)
      v += share * (relative * std::abs(v) + absolute);
    }
  }

 private:
  DType dtype_;
  std::mt19937_64 random_;
};

inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// The exact result and the standard deviation, as a distance, of each of its arrays.
class Expectation {
 public:
  using Arrays = std::map<std::string, std::vector<double>>;

  Expectation(const Config::Model& model, int64_t recurrence, const Arrays& parameters,
              const TokenBatch& batch, DType dtype)
      : exact_(arrays(ReferenceModel<double>(model, recurrence, parameters).run(batch))) {
    constexpr int kDraws = 16;
    for (uint64_t draw = 0; draw < kDraws; ++draw) {
      ReferenceModel<double> model_with_errors(model, recurrence, parameters, RandomRounding(dtype, draw));
      for (const auto& [name, values] : arrays(model_with_errors.run(batch))) {
        const double d = distance(values, exact_.at(name));
        deviation_[name] += d * d / kDraws;
      }
    }
    for (auto& [name, d] : deviation_) d = std::sqrt(d);
  }

  const Arrays& exact() const { return exact_; }
  double length(const std::string& name) const {
    return distance(exact_.at(name), std::vector<double>(exact_.at(name).size()));
  }
  // Four standard deviations: 1 in 16,000 for a single normal error, and less for arrays.
  double allowed(const std::string& name) const { return 4 * deviation_.at(name); }

  // Empty if `found` is as near to the exact array as rounding explains.
  std::string mismatch(const std::string& name, const std::vector<double>& found) const {
    const std::vector<double>& exact = exact_.at(name);
    if (found.size() != exact.size()) return name + ": another size";
    const double d = distance(found, exact);
    if (d <= allowed(name)) return "";
    char text[200];
    std::snprintf(text, sizeof text, "%s: off by %.3g, rounding explains %.3g; its length is %.3g",
                  name.c_str(), d, allowed(name), length(name));
    return text;
  }

 private:
  // "loss" and "logits", and the gradients by the name of their parameter.
  static Arrays arrays(ReferenceModel<double>::Result r) {
    Arrays all = std::move(r.gradient);
    all["loss"] = {r.cross_entropy};
    all["logits"] = std::move(r.logits);
    return all;
  }

  Arrays exact_;
  std::map<std::string, double> deviation_;
};

}  // namespace genesis
