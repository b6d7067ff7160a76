#include "io/run_dir.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/folder_content.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"
#include "tests/support/unprivileged.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

std::string same(const std::string&, const std::string&) { return ""; }

std::string equal(const std::string& held, const std::string& wanted) {
  return held == wanted ? "" : "'" + held + "' is not '" + wanted + "'";
}

}  // namespace

TEST_CASE("a run's folder is created, claimed, and given back") {
  const TempFolder folder;
  const std::string run = folder.file("runs/a");
  {
    RunClaim claim = claim_run_dir(run, "d: 1\n", equal);
    CHECK_FALSE(fs::exists(run + "/config.yaml"));
    claim.begin();
    CHECK(read_text_file(run + "/config.yaml") == "d: 1\n");
    // Another open file is another owner, so that a second claim in this process stands for a second process.
    const std::string refused = message_of([&] { claim_run_dir(run, "d: 1\n", equal); });
    CHECK(refused.find(run + " is in use by another process (its id: " + std::to_string(getpid())) == 0);
  }
  std::optional<RunClaim> claim = claim_run_dir(run, "d: 1\n", equal);
  RunClaim moved = std::move(*claim);
  claim.reset();
  CHECK_FALSE(message_of([&] { claim_run_dir(run, "d: 1\n", equal); }).empty());
}

TEST_CASE("a claim ends with its process, however that ends") {
  const TempFolder folder;
  const std::string run = folder.file("run");
  const pid_t child = fork();
  if (child == 0) {
    RunClaim claim = claim_run_dir(run, "", same);
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(read_text_file(run + "/lock") == std::to_string(child));
  claim_run_dir(run, "", same);
}

TEST_CASE("a folder that holds another run is refused and left as it is") {
  const TempFolder folder;
  const std::string run = folder.file("run");
  claim_run_dir(run, "d: 1\n", equal).begin();
  const std::string refused = message_of([&] { claim_run_dir(run, "d: 2\n", equal); });
  CHECK(refused.find(run + " holds another run: 'd: 1\n' is not 'd: 2\n'. Choose another folder") == 0);
  CHECK(read_text_file(run + "/config.yaml") == "d: 1\n");
  // A difference that doesn't matter: the run goes on with the new text.
  claim_run_dir(run, "d: 2\n", same).begin();
  CHECK(read_text_file(run + "/config.yaml") == "d: 2\n");

  const std::string lost = folder.file("lost");
  fs::create_directories(lost + "/checkpoints");
  CHECK(message_of([&] { claim_run_dir(lost, "", same); }).find("checkpoints but no config.yaml") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(lost + "/lock"));
}

TEST_CASE("a folder that can't be written is refused") {
  const TempFolder folder;
  replace_text_file(folder.file("file"), "");
  CHECK(message_of([&] { claim_run_dir(folder.file("file"), "", same); }).find("cannot") == 0);
  CHECK(message_of([&] { claim_run_dir(folder.file("file/run"), "", same); }).find("cannot create") == 0);
  CHECK(message_of([&] { claim_run_dir("/proc/run", "", same); }).find("cannot create") == 0);
  CHECK(message_of([&] { claim_run_dir("/proc", "", same); }).find("cannot write into the run's folder") ==
        0);
}

TEST_CASE("a start that fails takes back what it has made, and no more") {
  const TempFolder folder;
  // New folders and all in them.
  for (const char* name : {"deep/er/run", "slash/run/", "deep/./dot"}) {
    {
      const RunClaim claim = claim_run_dir(folder.file(name), "d: 1\n", equal);
      CHECK(fs::exists(folder.file(name) + "/lock"));
      folder.put(std::string(name) + "/metrics.jsonl", "");
      folder.put(std::string(name) + "/tokenizer.model", "");
      folder.put(std::string(name) + "/config.yaml.tmp", "");
      fs::create_directory(folder.file(name) + "/tensorboard");
      folder.put(std::string(name) + "/tensorboard/events.out.tfevents.1", "");
    }
    CHECK(content_of(folder.path()).size() == 1);
  }
  // A folder that holds a run, or other things.
  const std::string run = folder.file("run");
  claim_run_dir(run, "d: 1\n", equal).begin();
  fs::create_directory(run + "/tensorboard");
  for (const char* file : {"metrics.jsonl", "tensorboard/events.out.tfevents.1", "notes.txt", "lock"}) {
    folder.put("run/" + std::string(file), "theirs");
  }
  const auto before = content_of(folder.path());
  {
    const RunClaim claim = claim_run_dir(run, "d: 1\n", equal);
    CHECK(read_text_file(run + "/lock") == std::to_string(getpid()));
    folder.put("run/tokenizer.model", "");
    folder.put("run/tensorboard/events.out.tfevents.2", "");
    CHECK_FALSE(message_of([&] { claim_run_dir(run, "d: 1\n", equal); }).empty());  // takes nothing back
    CHECK(fs::exists(run + "/tokenizer.model"));
    CHECK_FALSE(message_of([&] { claim_run_dir(run, "d: 1\n", equal); }).empty());
  }
  CHECK(content_of(folder.path()) == before);
  // What someone else put there meanwhile stays.
  {
    const RunClaim claim = claim_run_dir(folder.file("new"), "", equal);
    folder.put("new/notes.txt", "theirs");
  }
  CHECK(content_of(folder.file("new")).size() == 2);
}

TEST_CASE("however starts fail beside each other, no two of them hold a folder at once") {
  const TempFolder folder;
  const std::string run = folder.file("a/b"), inside = folder.file("inside");
  constexpr int kProcesses = 4, kStarts = 50;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    for (int held = 0; held < kStarts;) {
      try {
        const RunClaim claim = claim_run_dir(run, "", equal);
        if (mkdir(inside.c_str(), 0777) != 0) _exit(101);  // another one is in
        if (rmdir(inside.c_str()) != 0) _exit(102);
        ++held;
      } catch (const Error& error) {
        if (std::string(error.what()).find("in use by another process") == std::string::npos) _exit(103);
        sched_yield();
      }
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  // A start takes back what it has made itself: one may have made a folder that another was in when it ended, or have
  // found another's lock.
  std::vector<std::string> left;
  for (const auto& [name, content] : content_of(folder.path())) left.push_back(name);
  const std::vector<std::string> most{".", "./a", "a/b", "a/b/lock"};
  INFO(::Catch::Detail::stringify(left));
  CHECK(left.size() <= most.size());
  CHECK(std::equal(left.begin(), left.end(), most.begin()));
}

TEST_CASE("a config.yaml that can't be read is an error, and not a missing one") {
  const TempFolder folder;
  const std::string run = folder.file("run"), config = run + "/config.yaml";
  fs::create_directory(run);
  const auto refused = [&] { return message_of([&] { claim_run_dir(run, "", equal).begin(); }); };
  fs::create_symlink("nowhere", config);
  CHECK(refused() == "cannot read " + config + ": No such file or directory");
  fs::remove(config);
  fs::create_directory(config);
  CHECK(refused() == "cannot read " + config + ": it is not a regular file but a folder");
  fs::remove(config);
  folder.put("run/config.yaml", "d: 1\n");
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(run, fs::perms(0777));
  fs::permissions(config, fs::perms::none);
  CHECK(message_unprivileged([&] { claim_run_dir(run, "", same).begin(); }) ==
        "cannot read " + config + ": Permission denied");
  fs::permissions(run, fs::perms::none);
  CHECK(message_unprivileged([&] {
          claim_run_dir(run, "", same).begin();
        }).find("cannot write into the run's folder: " + run + "/lock: Permission denied") == 0);
  fs::permissions(run, fs::perms(0755));
}
