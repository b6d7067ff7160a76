// What every program does with its command line.
#include <algorithm>
#include <string>

#include "kernels/common/available_cpus.h"
#include "tests/apps/shell.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

const char* const kPrograms[] = {"genesis_train", "genesis_tokenize", "genesis_generate",  "genesis_report",
                                 "genesis_eval",  "genesis_serve",    "genesis_checkpoint"};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Refused in one line that a person can read, which has all of `parts`.
void check_refused(const Outcome& o, std::initializer_list<std::string> parts) {
  INFO(o.err);
  CHECK(o.code != 0);
  CHECK(o.out == "");
  CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
  CHECK(o.err.size() < 200);
  for (const std::string& part : parts) CHECK(has(o.err, part));
}

}  // namespace

TEST_CASE("the version: --version says what a program is made of") {
  for (const char* program : kPrograms) {
    const Outcome o = Shell(program).run("--version");
    INFO(o.out);
    CHECK(o.code == 0);
    CHECK(o.out.starts_with(std::string(program) + " "));
    for (const char* part :
         {"commit: ", "compiler: ", "oneDNN ", "sentencepiece ", "zstd ", "CPU: ", "CUDA: "}) {
      CHECK(has(o.out, part));
    }
    CHECK(has(o.out, std::to_string(available_cpus()) + " to use"));
    CHECK((has(o.out, "auto is bf16") || has(o.out, "auto is f32")));
    CHECK(has(o.out, "AVX512-BF16; device") == has(o.out, "auto is bf16"));
  }
}

TEST_CASE("the version: --version tells the instruction sets and the type that the CPU's allow") {
  const Shell shell("genesis_train");
  const std::string run = "cd " + shell.folder.path().string() +
                          " && ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2 " + GENESIS_BIN_DIR +
                          "/genesis_train --version >out";
  REQUIRE(std::system(run.c_str()) == 0);
  const std::string out = read_text_file(shell.folder.file("out"));
  CHECK(has(out, "device.dtype auto is f32"));
  CHECK(!has(out, "AVX512-BF16,"));
}

TEST_CASE("an option that there is not is named, whatever else is missing") {
  for (const char* program : kPrograms) {
    check_refused(Shell(program).run("--foo"), {program, "--foo"});
    check_refused(Shell(program).run("x --foo"), {program, "--foo"});
  }
  for (const char* command : {"train", "encode", "decode"}) {
    check_refused(Shell("genesis_tokenize").run(std::string(command) + " --foo"), {"--foo"});
  }
  const Shell train("genesis_train");
  check_refused(train.run("--train.steps"), {"--train.steps=value"});
  check_refused(train.run("nothing.yaml --train.steps 5"), {"--train.steps=value"});
  check_refused(train.run("--train.steps 5 nothing.yaml"), {"--train.steps=value"});
  check_refused(train.run("a.yaml b.yaml"), {"b.yaml: was not expected"});
  check_refused(train.run("--trian.steps=5"), {"trian.steps", "did you mean train.steps"});
  check_refused(train.run("--train.steps=5"), {"which config"});
}

TEST_CASE("output that could not be written is an error, of --help and --version too") {
  std::vector<std::string> commands{"genesis_tokenize train --help",
                                    "genesis_tokenize encode --help",
                                    "genesis_tokenize decode --help",
                                    "genesis_train --help-config",
                                    "genesis_train --print-config " GENESIS_SOURCE_DIR
                                    "/configs/quickstart.yaml",
                                    "genesis_train --plan " GENESIS_SOURCE_DIR "/configs/quickstart.yaml"};
  for (const std::string program : kPrograms) {
    for (const char* option : {" --help", " --version"}) commands.push_back(program + option);
  }
  const TempFolder folder;
  for (const std::string& command : commands) {
    INFO(command);
    const std::string run =
        "cd " + folder.path().string() + " && " + GENESIS_BIN_DIR + "/" + command + " >/dev/full 2>err";
    CHECK(std::system(run.c_str()) != 0);
    CHECK(has(read_text_file(folder.file("err")), "standard output could not be written"));
  }
}

TEST_CASE("a config comes from a file, from standard input, or through a pipe") {
  const Shell train("genesis_train");
  const std::string config = GENESIS_SOURCE_DIR "/configs/quickstart.yaml";
  const std::string expected = train.run("--print-config " + config).out;
  REQUIRE(has(expected, "quickstart"));
  std::filesystem::copy_file(config, train.folder.path() / "c.yaml");
  CHECK(train.run("--print-config - <c.yaml").out == expected);
  CHECK(train.run("--print-config /dev/stdin <c.yaml").out == expected);
  REQUIRE(std::system(("mkfifo " + train.folder.file("pipe")).c_str()) == 0);
  const auto piped = [&](const std::string& name) {
    const std::string run = "cd " + train.folder.path().string() + " && (cat c.yaml >pipe & " +
                            GENESIS_BIN_DIR + "/genesis_train --print-config " + name + " >out; wait)";
    REQUIRE(std::system(run.c_str()) == 0);
    return read_text_file(train.folder.file("out"));
  };
  CHECK(piped("pipe") == expected);
  CHECK(piped("- <pipe") == expected);
  CHECK(piped("/dev/stdin <pipe") == expected);

  check_refused(train.run("- </dev/null"), {"standard input"});
  check_refused(train.run("/dev/zero"), {"/dev/zero", "16 MiB"});
  check_refused(train.run("."), {"regular file"});
  train.folder.put("bad.yaml", "run_dir: x\nmodle: 3\n");
  check_refused(train.run("- <bad.yaml"), {"standard input:2", "modle"});
}
