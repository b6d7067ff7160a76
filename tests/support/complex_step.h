// Proof of a reference's backward pass by complex-step differentiation (Squire & Trapp 1998, "Using complex
// variables to estimate derivatives of real functions"): for an analytic f, Im f(x + ih) / h is f'(x) to the
// last bits, since nothing is subtracted and h can be 1e-200.
#pragma once

#include <cmath>
#include <complex>
#include <cstdio>
#include <string>
#include <vector>

namespace genesis {

using Complex = std::complex<double>;
using ComplexArray = std::vector<Complex>;

// An input of an op: its value and the gradient that the reference's backward gives for it.
struct Differentiated {
  std::string name;
  std::vector<double> value;
  std::vector<double> gradient;
};

// `loss` maps the inputs' values, as std::vector<ComplexArray>, to a Complex. Empty when every element's
// gradient is right to 1e-10 of the array's largest; else the first that is not.
template <class Loss>
std::string gradient_mismatch(const std::vector<Differentiated>& inputs, const Loss& loss) {
  constexpr double kStep = 1e-200, kTolerance = 1e-10;
  std::vector<ComplexArray> values;
  for (const auto& in : inputs) values.emplace_back(in.value.begin(), in.value.end());
  for (size_t k = 0; k < inputs.size(); ++k) {
    double largest_gradient = 0;
    std::vector<double> derivative(values[k].size());
    for (size_t i = 0; i < derivative.size(); ++i) {
      values[k][i] += Complex(0, kStep);
      derivative[i] = std::imag(loss(values)) / kStep;
      values[k][i] = inputs[k].value[i];
      largest_gradient = std::max(largest_gradient, std::abs(derivative[i]));
    }
    if (!(largest_gradient > 0)) return inputs[k].name + ": the loss does not depend on it";
    for (size_t i = 0; i < derivative.size(); ++i) {
      if (std::abs(inputs[k].gradient.at(i) - derivative[i]) <= kTolerance * largest_gradient) continue;
      char text[160];
      std::snprintf(text, sizeof text, "%s[%zu]: derivative %.15g, the backward pass says %.15g",
                    inputs[k].name.c_str(), i, derivative[i], inputs[k].gradient[i]);
      return text;
    }
  }
  return "";
}

// The sum of weights[i] * values[i]: a loss whose gradient for `values` is `weights`.
inline Complex dot(const std::vector<double>& weights, const ComplexArray& values) {
  Complex sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * values.at(i);
  return sum;
}

}  // namespace genesis
