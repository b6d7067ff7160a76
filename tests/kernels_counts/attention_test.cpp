// The attention kernels with tensor cores: products, traffic and bank conflicts are those that the tiling says.
#include "kernels/attention/attention_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

constexpr int64_t kTile = 64, kStep = 32, kWarpRows = 16;

// What the tiling says that a case takes, counted by walking the tiles. `pairs` are the tiles of 64 keys that
// the forward's tiles of queries walk; steps are those of the backward's warps, of 16 rows against 32.
struct Tiling {
  int64_t tiles = 0, pairs = 0;
  int64_t dq_steps = 0, dq_warp_steps = 0;
  int64_t dkv_steps = 0, dkv_warp_steps = 0;

  explicit Tiling(const AttentionProblem& p) : tiles((p.c.T + kTile - 1) / kTile) {
    const int64_t T = p.c.T;
    for (int64_t b = 0; b < p.c.B; ++b) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t t0 = tile * kTile, end = std::min(t0 + kTile, T);
        int64_t first = p.document_positions() ? T : 0;
        for (int64_t t = t0; t < end && p.document_positions(); ++t) {
          first = std::min(first, t - p.document_positions()[b * T + t]);
        }
        pairs += tile - first / kTile + 1;
        for (int64_t key = first / kStep * kStep; key < end; key += kStep) {
          ++dq_steps;
          for (int64_t row = t0; row < t0 + kTile; row += kWarpRows) dq_warp_steps += key < row + kWarpRows;
        }
        for (int64_t key = first / kTile * kTile; key < t0 + kTile; key += kTile) {
          for (int64_t t = t0; t < end; t += kStep) {
            ++dkv_steps;
            for (int64_t row = key; row < key + kTile; row += kWarpRows) dkv_warp_steps += t + kStep > row;
          }
        }
      }
    }
    for (int64_t* n : {&pairs, &dq_steps, &dq_warp_steps, &dkv_steps, &dkv_warp_steps}) *n *= p.c.H;
  }
};

int64_t sectors_of_rows(int64_t rows, int64_t K) { return rows * K * 2 / 32; }

// Sectors that 16-byte accesses read, which are all but those of statistics and positions.
int64_t wide_reads(const simt::LaunchReport& r) {
  int64_t n = 0;
  for (const auto& s : r.sites) {
    if (s.space == simt::Space::global && s.kind != "store" && s.bytes == 16) n += s.sectors;
  }
  return n;
}

int64_t sectors_written(const simt::LaunchReport& r, int bytes) {
  int64_t n = 0;
  for (const auto& s : r.sites) {
    if (s.space == simt::Space::global && s.kind == "store" && s.bytes == bytes) n += s.sectors;
  }
  return n;
}

}  // namespace

TEST_CASE("attention: products, traffic and bank conflicts on CUDA are those of the tiling") {
  for (const auto& c :
       {AttentionCase{"head of 128", 1, 192, 4, 2, 128}, AttentionCase{"head of 64", 2, 192, 2, 1, 64},
        AttentionCase{"documents", 1, 448, 2, 1, 64, 100}, AttentionCase{"a group of 1", 1, 128, 2, 2, 64}}) {
    INFO(c.name);
    simt::Session session;
    AttentionProblem p(c, DType::bf16, simt::kDeviceMemory);
    p.take_workspaces(cuda::attention_forward_workspace(p.shape), cuda::attention_backward_workspace(p.shape),
                      simt::kDeviceMemory);
    const Tiling tiling(p);
    cuda::attention_forward(p.forward(), {});
    cuda::attention_backward(p.backward(), {});
    simt::finish();
    for (const auto& r : session.reports()) CHECK(r.bank_conflicts() == 0);

    // An mma is 16 rows by 8 columns by 16 terms; a product of 16 by n by K takes n K / 128.
    const int64_t K = c.K, rows = c.B * c.H * c.T, key_rows = c.B * c.KV * c.T;
    const auto& forward = session.report("attention_forward");
    CHECK(forward.mma == tiling.pairs * 4 * 2 * kTile * K / 128);
    CHECK(wide_reads(forward) == sectors_of_rows(rows + tiling.pairs * 2 * kTile, K));
    CHECK(sectors_written(forward, 16) == sectors_of_rows(rows, K));

    const auto& dq = session.report("attention_dq");
    CHECK(dq.mma == tiling.dq_warp_steps * 3 * kStep * K / 128);
    CHECK(wide_reads(dq) == sectors_of_rows(3 * rows + tiling.dq_steps * 2 * kStep, K));
    CHECK(sectors_written(dq, 16) == sectors_of_rows(rows, K));

    const auto& dkv = session.report("attention_dkv");
    CHECK(dkv.mma == tiling.dkv_warp_steps * 4 * kStep * K / 128);
    // With so few blocks every query head's part of dk and dv is a block's own, in fp32.
    const int64_t parts = c.H / c.KV, sums = sectors_of_rows(2 * key_rows, K);
    CHECK(wide_reads(dkv) == parts * sums + sectors_of_rows(tiling.dkv_steps * 2 * kStep, K));
    CHECK(sectors_written(dkv, 16) == (parts == 1 ? sums : 0));
    CHECK(sectors_written(dkv, 8) == (parts == 1 ? 0 : parts * 2 * sums));
    if (parts > 1) {
      const auto& sum = session.report("attention_dkv_sum");
      CHECK(wide_reads(sum) == parts * 2 * sums);
      CHECK(sectors_written(sum, 8) == sums);
    }

    if (c.document) {  // tiles really are skipped
      CHECK(tiling.pairs < c.B * c.H * tiling.tiles * (tiling.tiles + 1) / 2);
    }
  }
}
