#include "io/checkpoint.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/common/error.h"
#include "tests/support/catch.h"

using namespace genesis;
namespace fs = std::filesystem;

TEST_CASE("a checkpoint gives back every bit") {
  const fs::path run = fs::temp_directory_path() / ("genesis_ckpt_" + std::to_string(getpid()));
  std::vector<float> w{1, 2, 3, 4, 5, 6}, m{7}, v{8};
  const std::vector<NamedTensor> model{{"w", StoredDType::f32, {2, 3}, w.data()}};
  const std::vector<NamedTensor> moments{{"w.m", StoredDType::f32, {}, m.data()},
                                         {"w.v", StoredDType::f32, {1}, v.data()}};
  TrainState state{1000, 998, 7, 8, 2, 1, ~uint64_t(0), "model:\n  d: 4\n", "hash"};
  const std::string path = save_checkpoint(run, state, views_of(model), views_of(moments));
  const auto saved = w;
  w.assign(6, 0.f);
  load_checkpoint(path, model, moments);
  CHECK(w == saved);
  CHECK(read_checkpoint_state(path) == state);
  fs::remove_all(run);
}
