// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/): a matrix moves by its momentum made
// orthogonal. For a matrix [rows, columns] with gradient grad,
//   g = scale * grad
//   m = beta m + (1 - beta) g
//   u = (1 - beta) g + beta m                                    (Nesterov's momentum)
//   X = u / (margin * max(|u|, 1e-7)),  |u| the Frobenius norm, so that no singular value is over 1
//   X = (a I + b A + c A^2) X,  A = X X^T                        four or five times, each with its own a, b, c
//   master -= lr * (factor * X + weight_decay * master)
//   copy = round(master)
// The iteration is a Newton-Schulz one: it takes each singular value s of X to a s + b s^3 + c s^5 and leaves the
// singular vectors as they are, so that X ends near the orthogonal matrix U V^T of u = U S V^T. Where X has more
// rows than columns the same is X (a I + b A + c A^2) with A = X^T X, the smaller of the two squares.
//
// Here are the passes between the matrix products, each memory-bound, and the coefficients.
#pragma once

#include <cstddef>

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

namespace genesis {

struct Quintic {
  float a = 0.f, b = 0.f, c = 0.f;
};

// An iteration's polynomials, in the order in which they are taken, and what else its first X is divided by.
struct MuonCoefficients {
  static constexpr int kMost = 5;
  float margin = 1.f;
  int count = 0;
  Quintic steps[kMost];

  constexpr const Quintic* begin() const { return steps; }
  constexpr const Quintic* end() const { return steps + count; }
};

// Jordan's, one polynomial five times: singular values from 0.003 to 1 end between 0.68 and 1.21.
inline constexpr Quintic kJordanQuintic{3.4445f, -4.7750f, 2.0315f};
inline constexpr MuonCoefficients kMuonJordan{
    1.f, 5, {kJordanQuintic, kJordanQuintic, kJordanQuintic, kJordanQuintic, kJordanQuintic}};

// Polar Express (Amsel et al. 2025, arXiv:2505.16932, algorithm 1): of all five quintics in a row those whose
// worst error over singular values from 0.001 to 1 is the least, 0.124; then, as there, for arguments 1.01 times
// as large, which rounding may make of them.
namespace detail {
constexpr Quintic for_larger(double a, double b, double c) {
  constexpr double k = 1.01;
  return {float(a / k), float(b / (k * k * k)), float(c / (k * k * k * k * k))};
}
}  // namespace detail
inline constexpr MuonCoefficients kMuonPolarExpress{
    1.01f,
    5,
    {detail::for_larger(8.28721201814563, -23.595886519098837, 17.300387312530933),
     detail::for_larger(4.107059111542203, -2.9478499167379106, 0.5448431082926601),
     detail::for_larger(3.9486908534822946, -2.908902115962949, 0.5518191394370137),
     detail::for_larger(3.3184196573706015, -2.488488024314874, 0.51004894012372),
     detail::for_larger(2.300652019954817, -1.6689039845747493, 0.4188073119525673)}};

// The same for four quintics and singular values from 0.003 to 1, 0.198: nearer to 1 than Jordan's five are.
inline constexpr MuonCoefficients kMuonPolarExpress4{
    1.01f,
    4,
    {detail::for_larger(8.383673612923165, -24.765905857974538, 18.357081892887603),
     detail::for_larger(4.043420433700424, -3.011404993841532, 0.5695121503191821),
     detail::for_larger(3.505570617243896, -2.6266538356181033, 0.5257194048203226),
     detail::for_larger(2.490115939444255, -1.8342750827526704, 0.4368347068954245)}};

inline constexpr float kMuonLeastNorm = 1e-7f;

// m, and |u|. A scale that is not finite: m stays as it is.
struct MuonMomentum {
  int64_t n = 0;                // elements
  const float* grad = nullptr;  // [n]
  float* m = nullptr;           // [n]
  float beta = 0.95f;
  const float* norm_and_scale = nullptr;  // [2], of grad_norm
  float* norm = nullptr;                  // [1]: |u|
  void* workspace = nullptr;              // muon_momentum_workspace bytes
};

// The first X. A scale that is not finite: all 0.
struct MuonNormalize {
  int64_t n = 0;
  const float* grad = nullptr;
  const float* m = nullptr;  // after this step's MuonMomentum
  float beta = 0.95f;
  const float* norm_and_scale = nullptr;
  const float* norm = nullptr;
  float margin = 1.f;
  DType dtype = DType::f32;
  void* x = nullptr;  // [n]
};

// y = a I + b A + c A^2.
struct MuonPolynomial {
  int64_t rows = 0;
  Quintic p;
  const float* square = nullptr;  // [rows, rows]: A^2
  DType dtype = DType::f32;
  const void* gram = nullptr;  // [rows, rows]: A
  void* y = nullptr;           // [rows, rows]; may be gram
};

struct MuonStep {  // in device memory, written once a step
  float lr = 0.f;
};

// Master and copy. A scale that is not finite: both stay as they are.
struct MuonUpdate {
  int64_t n = 0;
  DType dtype = DType::f32;
  const void* x = nullptr;  // [n]
  float factor = 1.f, weight_decay = 0.f;
  const MuonStep* step = nullptr;         // [1]
  const float* norm_and_scale = nullptr;  // [2]
  float* master = nullptr;                // [n]
  void* copy = nullptr;                   // [n] bf16, what the model computes with; null: the master
};

namespace cpu {
void muon_momentum(const MuonMomentum& a);
void muon_normalize(const MuonNormalize& a);
void muon_polynomial(const MuonPolynomial& a);
void muon_update(const MuonUpdate& a);
size_t muon_momentum_workspace(int64_t n);
}  // namespace cpu
// In 16-byte accesses, 256 elements a warp, where the arrays (and the polynomial's rows) are aligned to them; the last
// elements of an array, or of a polynomial's row, one by one.
namespace cuda {
void muon_momentum(const MuonMomentum& a, Stream stream);
void muon_normalize(const MuonNormalize& a, Stream stream);
void muon_polynomial(const MuonPolynomial& a, Stream stream);
void muon_update(const MuonUpdate& a, Stream stream);
size_t muon_momentum_workspace(int64_t n);
}  // namespace cuda

}  // namespace genesis
