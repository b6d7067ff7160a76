// A process is killed in the middle of saving a checkpoint, everywhere it could be: whatever is found
// afterwards must load, and be the old checkpoint or the new one. The child is traced (ptrace), so a kill is
// placed before a chosen system call and not left to luck.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "io/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

// A checkpoint's content: every value of its tensors, and its state's sample count.
enum Content : int64_t { kOlder = 1, kReplaced = 2, kNew = 3 };

// In memory where that is to be had, for a short test: a kill is no power failure, the medium plays no part.
fs::path quick() { return fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path(); }

// A run with a checkpoint of step 1, in which step 2 is going to be saved.
class Scene {
 public:
  explicit Scene(int64_t elements, const fs::path& parent) : folder_(parent), elements_(elements) {
    save(1, kOlder);
  }

  void save(int64_t step, Content content) {
    std::vector<float> values(static_cast<size_t>(elements_), static_cast<float>(content));
    const std::vector<NamedTensor> tensors = tensors_of(values);
    CheckpointContent checkpoint;
    checkpoint.state.step = step;
    checkpoint.state.samples = content;
    checkpoint.weights = views_of(tensors);
    checkpoint.masters = whole_slices(views_of(tensors));
    checkpoint.moments = whole_slices(views_of(moments_of(values)));
    checkpoint.files = {{"config.json", "{}\n"}};
    save_checkpoint(folder_.path(), checkpoint, [](const std::string& warning) { FAIL(warning); });
  }

  // Loads the latest checkpoint and returns its content; fails the test unless it is whole.
  Content latest() {
    const Warn none_broken = [](const std::string& warning) { FAIL(warning); };
    const auto path = latest_checkpoint(folder_.path(), none_broken);
    REQUIRE(path.has_value());
    std::vector<float> weights(static_cast<size_t>(elements_)), masters = weights, moments = weights;
    load_checkpoint_weights(*path, tensors_of(weights), {});
    load_checkpoint(*path, tensors_of(masters), moments_of(moments));
    const auto content = Content(read_checkpoint_state(*path).samples);
    for (const auto* values : {&weights, &masters, &moments}) {
      REQUIRE(std::all_of(values->begin(), values->end(), [&](float x) { return x == float(content); }));
    }
    return content;
  }

  // Step 2 not there, or there with kReplaced; and a half of it that an earlier kill left. Always the same,
  // so that the n-th system call of a save is the same one each time.
  void reset(bool replace) {
    const fs::path checkpoint = folder_.path() / "checkpoints/step_00000002",
                   left = checkpoint.string() + ".tmp";
    if (replace) {
      save(2, kReplaced);
    } else {
      fs::remove_all(checkpoint);
      fs::remove_all(left);
    }
    fs::create_directory(left);
    std::ofstream(left / "model-00001-of-00001.safetensors") << "half";
  }

  // What is on disk beside the old checkpoint: how far a save came.
  std::string stage() const {
    std::set<std::string> names;
    const fs::path root = folder_.path() / "checkpoints";
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string name = fs::relative(entry.path(), root);
      if (!name.starts_with("step_00000001")) names.insert(name.substr(std::string("step_0000000").size()));
    }
    std::string text;
    for (const std::string& name : names) text += name + " ";
    return text;
  }

 private:
  std::vector<NamedTensor> tensors_of(std::vector<float>& values) const {
    return {{"w", StoredDType::f32, {elements_}, values.data()}};
  }
  std::vector<NamedTensor> moments_of(std::vector<float>& values) const {
    return {{"w.m", StoredDType::f32, {elements_}, values.data()}};
  }

  TempFolder folder_;
  int64_t elements_;
};

// What a save writes, in this order.
const std::vector<std::string> kFiles{"config.json", "model-00001-of-00001.safetensors",
                                      "model.safetensors.index.json", "state-rank-0-of-1.safetensors",
                                      "state.json"};

// As Scene::stage tells it: a folder with the first of its files.
std::string stage_of(const std::string& folder, size_t files) {
  std::string text = folder + " ";
  for (size_t i = 0; i < files; ++i) text += folder + "/" + kFiles[i] + " ";
  return text;
}

// What is left is cleared away; begun; each file, or a part of it, one after the other; published.
std::set<std::string> stages() {
  std::set<std::string> all{"", stage_of("2", kFiles.size())};
  for (size_t files = 0; files <= kFiles.size(); ++files) all.insert(stage_of("2.tmp", files));
  return all;
}

bool changes_files(uint64_t call) {
  static const std::set<uint64_t> kCalls{
#ifdef SYS_mkdir  // the older calls are not on every architecture
      SYS_mkdir,   SYS_open,   SYS_rename, SYS_unlink, SYS_rmdir,
#endif
      SYS_mkdirat, SYS_openat, SYS_write,  SYS_fsync,  SYS_renameat, SYS_renameat2, SYS_unlinkat};
  return kCalls.contains(call);
}

struct Trace {
  std::vector<uint64_t> calls;  // those that were let through, of the kind asked for
  bool killed = false;
};

// Runs scene.save(2, kNew) in a child. Kills it at the entry of the `kill_at`-th system call, counting from 0
// and counting all calls or only those that change files; never, if it makes fewer.
Trace run_killed(Scene& scene, size_t kill_at, bool all_calls) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    scene.save(2, kNew);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSTOPPED(status));  // else this system does not let a process trace its child
  REQUIRE(ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
  Trace trace;
  for (;;) {
    REQUIRE(ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status)) {
      REQUIRE(WEXITSTATUS(status) == 0);
      return trace;
    }
    REQUIRE((WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80)));
    __ptrace_syscall_info info;
    REQUIRE(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || !(all_calls || changes_files(info.entry.nr))) continue;
    if (trace.calls.size() == kill_at) {
      REQUIRE(kill(child, SIGKILL) == 0);
      REQUIRE(waitpid(child, &status, 0) == child);
      REQUIRE(WIFSIGNALED(status));
      trace.killed = true;
      return trace;
    }
    trace.calls.push_back(info.entry.nr);
  }
}

struct Tally {
  int kills = 0;
  std::map<Content, int> found;  // how often the latest checkpoint was which
  std::set<std::string> stages;
};

// Kills a save at its first, second, ... system call until one comes through. `replace`: there is a
// checkpoint of the same step already.
Tally kill_everywhere(Scene& scene, bool all_calls, bool replace) {
  Tally tally;
  for (size_t kill_at = 0;; ++kill_at) {
    scene.reset(replace);
    const bool killed = run_killed(scene, kill_at, all_calls).killed;
    const Content latest = scene.latest();
    if (!killed) {
      CHECK(latest == kNew);
      CHECK(scene.stage() == stage_of("2", kFiles.size()));
      return tally;
    }
    ++tally.kills;
    ++tally.found[latest];
    tally.stages.insert(scene.stage());
  }
}

void check_tally(const Tally& tally, bool replace) {
  const Content before = replace ? kReplaced : kOlder;
  CHECK(tally.found.size() == 2);  // the one before or the new one: with `replace`, there was always a step 2
  CHECK(tally.found.contains(before));
  CHECK(tally.found.contains(kNew));
  const std::set<std::string> all = stages();
  if (replace) {
    // The same stages, but for the first and last, beside the checkpoint that is replaced.
    CHECK(tally.stages.size() >= all.size() - 1);
  } else {
    CHECK(std::includes(tally.stages.begin(), tally.stages.end(), all.begin(), all.end()));
  }
}

}  // namespace

TEST_CASE("a save that is killed leaves the old checkpoint or the new one") {
  for (const bool replace : {false, true}) {
    Scene scene(100, quick());
    const Tally tally = kill_everywhere(scene, false, replace);
    INFO("replace " << replace);
    CHECK(tally.kills >= 20);
    check_tally(tally, replace);
  }
}

TEST_CASE("everything is on disk before a checkpoint gets its name, and then the name") {
  Scene scene(100, quick());
  const std::vector<uint64_t> calls = run_killed(scene, SIZE_MAX, false).calls;
  const auto publish = std::find(calls.begin(), calls.end(), uint64_t(SYS_renameat2));
  REQUIRE(publish != calls.end());
  CHECK(std::count(calls.begin(), publish, uint64_t(SYS_fsync)) ==
        int64_t(kFiles.size()) + 1);  // and their folder
  CHECK(publish[-1] == SYS_fsync);
  CHECK(std::count(publish, calls.end(), uint64_t(SYS_fsync)) ==
        2);  // the folders of the checkpoint and of the run
}

TEST_CASE("a save that is killed leaves the old checkpoint or the new one, long", "[.][long]") {
  for (const int64_t elements : {int64_t(100), int64_t(3'000'000)}) {  // the second is written in many pieces
    for (const bool replace : {false, true}) {
      Scene scene(elements, fs::temp_directory_path());
      const Tally tally = kill_everywhere(scene, true, replace);
      INFO(elements << " elements, replace " << replace);
      CHECK(tally.kills >= 50);
      check_tally(tally, replace);
    }
  }
}

TEST_CASE("a save that is killed at any time, in a system call too, leaves a whole checkpoint, long",
          "[.][long]") {
  Scene scene(3'000'000, fs::temp_directory_path());
  std::set<std::string> stages;
  for (int i = 0; i < 300; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) scene.save(2, kNew);
    }
    usleep(useconds_t(i * 300));
    REQUIRE(kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    stages.insert(scene.stage());
    scene.latest();
    if (i % 3 == 0) scene.reset(false);
  }
  CHECK(stages.size() >= 6);
}
