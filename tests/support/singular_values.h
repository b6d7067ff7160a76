// Singular values in double, for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace genesis {

// Of x [rows, columns], from the largest on: one-sided Jacobi rotations make the shorter side's vectors orthogonal,
// and their lengths are the values (Hestenes 1958; Golub and Van Loan, "Matrix Computations", 8.6.3).
inline std::vector<double> singular_values(const std::vector<double>& x, int64_t rows, int64_t columns) {
  const bool tall = rows > columns;
  const int64_t n = std::min(rows, columns), length = std::max(rows, columns);
  std::vector<std::vector<double>> v(static_cast<size_t>(n),
                                     std::vector<double>(static_cast<size_t>(length)));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < length; ++k) {
      v[size_t(i)][size_t(k)] = x[size_t(tall ? k * columns + i : i * columns + k)];
    }
  }
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
    return sum;
  };
  for (bool rotated = true; rotated;) {
    rotated = false;
    for (size_t i = 0; i < v.size(); ++i) {
      for (size_t j = i + 1; j < v.size(); ++j) {
        const double a = dot(v[i], v[i]), b = dot(v[j], v[j]), c = dot(v[i], v[j]);
        if (std::abs(c) <= 1e-13 * std::sqrt(a * b)) continue;
        rotated = true;
        const double zeta = (b - a) / (2 * c);
        const double t = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double cosine = 1 / std::sqrt(1 + t * t), sine = cosine * t;
        for (size_t k = 0; k < v[i].size(); ++k) {
          const double first = v[i][k];
          v[i][k] = cosine * first - sine * v[j][k];
          v[j][k] = sine * first + cosine * v[j][k];
        }
      }
    }
  }
  std::vector<double> values;
  for (const auto& vector : v) values.push_back(std::sqrt(dot(vector, vector)));
  std::sort(values.rbegin(), values.rend());
  return values;
}

}  // namespace genesis
