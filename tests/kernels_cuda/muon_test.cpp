#include "kernels/muon/muon_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

namespace {

struct CudaMuon {
  static void momentum(const MuonMomentum& a) { cuda::muon_momentum(a, {}); }
  static void normalize(const MuonNormalize& a) { cuda::muon_normalize(a, {}); }
  static void polynomial(const MuonPolynomial& a) { cuda::muon_polynomial(a, {}); }
  static void update(const MuonUpdate& a) { cuda::muon_update(a, {}); }
};

}  // namespace

TEST_CASE("muon: the CUDA kernels agree with their formulas") {
  for (const auto& c : muon_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      simt::in_all_orders([&](simt::Session&) {
        MuonProblem p(c, dtype, cuda::muon_momentum_workspace(c.rows * c.columns), simt::kDeviceMemory);
        check_muon_passes<CudaMuon>(
            p, [](const Result& r) { CHECK(mismatch(r) == ""); }, simt::finish);
      });
    }
  }
}
