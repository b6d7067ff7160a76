// genesis_tokenize as its user meets it: the program itself, run in a folder of its own.
#include <sys/stat.h>

#include "io/dataset.h"
#include "tests/apps/shell.h"
#include "tests/io/compress.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

const std::string kPage = read_text_file(GENESIS_SOURCE_DIR "/docs/design.md");

}  // namespace

TEST_CASE("genesis_tokenize trains, encodes and gives back every byte") {
  const Shell shell("genesis_tokenize");
  const std::string other = "a  second\r\n\tdocument \xf0\x9f\x98\x80\n\n";
  shell.folder.put("page.md", kPage);
  shell.folder.put("other.txt", other);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.md other.txt").code == 0);
  const Outcome encoded = shell.run("encode --tokenizer t.model --output d page.md other.txt");
  REQUIRE(encoded.code == 0);
  CHECK(encoded.out.find("2 documents") != std::string::npos);
  const TokenDataset data(shell.folder.path() / "d");
  CHECK(data.documents() == 2);
  CHECK(data.bytes() == int64_t(kPage.size() + other.size()));
  CHECK(shell.run("decode --tokenizer t.model d").out == kPage + other);
  CHECK(shell.run("decode --tokenizer t.model d --separator '\\n<\\\\>' --output text").code == 0);
  CHECK(read_text_file(shell.folder.file("text")) == kPage + "\n<\\>" + other);
  CHECK(!shell.exists("text.tmp"));
}

TEST_CASE("genesis_tokenize holds out the same last part in training and encoding") {
  const Shell shell("genesis_tokenize");
  const std::string secret = "zzzzq wqzzz zzzzq wqzzz zzzzq wqzzz\n";
  std::string text = kPage;
  for (int i = 0; i < 30; ++i) text += secret;
  shell.folder.put("text", text);
  const std::string hold = "--validation-fraction 0.1 ";
  REQUIRE(shell.run("train --vocab-size 600 " + hold + "--output t.model text").code == 0);
  REQUIRE(
      shell.run("encode --tokenizer t.model " + hold + "--output train --validation-output val text").code ==
      0);
  const std::string train = shell.run("decode --tokenizer t.model train").out;
  const std::string validation = shell.run("decode --tokenizer t.model val").out;
  CHECK(train + validation == text);
  CHECK(train.size() >= text.size() * 9 / 10);
  CHECK(train.size() < text.size() * 9 / 10 + 2000);  // a line more at most
  CHECK(validation.find(secret) != std::string::npos);
  CHECK(Tokenizer(shell.folder.file("t.model")).encode(" wqzzz").size() > 1);  // never seen while learning
  const Outcome alone = shell.run("encode --tokenizer t.model " + hold + "--output x text");
  CHECK(alone.code == 1);
  CHECK(alone.err.find("go together") != std::string::npos);
}

TEST_CASE("genesis_tokenize replaces nothing unless it is told to") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.md").code == 0);
  REQUIRE(shell.run("encode --tokenizer t.model --output d page.md").code == 0);
  const std::string model = read_text_file(shell.folder.file("t.model"));
  const std::string bin = read_text_file(shell.folder.file("d.bin"));
  const auto refused = [&](const std::string& arguments, const std::string& file) {
    const Outcome outcome = shell.run(arguments);
    CHECK(outcome.code == 1);
    CHECK(outcome.err.find("genesis_tokenize: " + file + ": is there already") != std::string::npos);
  };
  refused("train --vocab-size 500 --output t.model page.md", "t.model");
  refused("encode --tokenizer t.model --output d page.md", "d.bin");
  shell.folder.put("text", "mine");
  refused("decode --tokenizer t.model --output text d", "text");
  CHECK(read_text_file(shell.folder.file("t.model")) == model);
  CHECK(read_text_file(shell.folder.file("d.bin")) == bin);
  CHECK(read_text_file(shell.folder.file("text")) == "mine");
  CHECK(shell.run("decode --tokenizer t.model --force --output text d").code == 0);
  CHECK(read_text_file(shell.folder.file("text")) == kPage);
  CHECK(shell.run("train --vocab-size 500 --force --output t.model page.md").code == 0);
  CHECK(read_text_file(shell.folder.file("t.model")) != model);
}

TEST_CASE("genesis_tokenize names what is wrong, exits with an error and leaves nothing") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.md").code == 0);
  shell.folder.put("latin1.txt", "caf\xe9");
  shell.folder.put("bad.jsonl", "{\"text\": \"a\"}\n{\"text\" \"b\"}\n");
  shell.folder.put("cut.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\3", 10));
  shell.folder.put("empty.txt", "");
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    const Outcome outcome = shell.run(arguments);
    CHECK(outcome.code != 0);
    CHECK(outcome.err.find(message) != std::string::npos);
  };
  const std::string encode = "encode --tokenizer t.model --output d page.md ";
  refused(encode + "latin1.txt", "genesis_tokenize: latin1.txt: is not UTF-8 at byte 3");
  refused(encode + "bad.jsonl", "bad.jsonl: line 2 is not JSON");
  refused(encode + "cut.gz", "cut.gz: the gzip data is cut short");
  refused(encode + "none.txt", "none.txt");
  refused("encode --tokenizer t.model --output d empty.txt", "d: there is no text");
  refused("encode --tokenizer none.model --output d page.md", "none.model");
  refused("encode --tokenizer page.md --output d page.md", "page.md: is not a SentencePiece model");
  refused("encode --tokenizer t.model --output none/d page.md", "none/d.bin");
  refused("train --vocab-size 600 --output new.model latin1.txt", "latin1.txt: is not UTF-8");
  refused("train --vocab-size 60000 --output new.model page.md", "pieces, not 60000");
  const std::string train = "train --output new.model page.md ";
  refused(train + "--vocab-size 99999999999",
          "--vocab-size: expected an integer from 1 to 2147483647, found 99");
  refused(train + "--max-bytes -1", "--max-bytes: expected an integer, at least 1, found -1;");
  refused(train + "--max-piece-length 0", "--max-piece-length: expected an integer from 1 to 512, found 0");
  refused(train + "--format xml", "--format: xml not in {text,jsonl}");
  refused("train --vocab-size 258 --output new.model page.md", "at least 259 pieces");
  refused("train --vocab-size 262 --output new.model page.md", "ask for more pieces, or lower the character");
  refused("train --character-coverage nan --output new.model page.md", "from 0.98 to 1, found nan");
  refused("train --vocab-size 600 --output none/new.model page.md", "no folder none");
  refused("train --vocab-size 600 --force --output . page.md", "is a folder");
  refused("encode --tokenizer t.model --output none/ page.md", "PREFIX");
  refused("encode --tokenizer t.model --output '' page.md", "PREFIX");
  const std::string held = "encode --tokenizer t.model --validation-fraction ";
  refused(held + "nan --output d --validation-output d.val page.md", "found nan");
  refused(held + "0.1 --output d --validation-output ./d page.md", "names of their own");
  refused(held + "0.1 --output d --validation-output d.val /dev/null", "reads the text twice");
  refused("decode --tokenizer t.model d", "d.json");
  refused("encode --output d page.md", "--tokenizer");
  refused("", "subcommand");
  for (const auto& entry : fs::directory_iterator(shell.folder.path())) {
    const std::string name = entry.path().filename();
    CHECK((name.find("d.") != 0 && name.find("new.") != 0 && name.find(".tmp") == std::string::npos));
  }
}

TEST_CASE("genesis_tokenize never replaces what it reads") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.bin", kPage);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.bin").code == 0);
  REQUIRE(shell.run("encode --tokenizer t.model --output d page.bin").code == 0);
  fs::copy_file(shell.folder.path() / "t.model", shell.folder.path() / "t.json");
  fs::create_symlink("page.bin", shell.folder.path() / "link");
  for (const auto& [arguments, file] : {
           std::pair{"train --vocab-size 600 --output page.bin page.bin", "page.bin"},
           std::pair{"train --vocab-size 600 --output link page.bin", "page.bin"},
           std::pair{"encode --tokenizer t.model --output page page.bin", "page.bin"},
           std::pair{"encode --tokenizer t.json --output t page.bin", "t.json"},
           std::pair{"decode --tokenizer t.model --output d.bin d", "d.bin"},
           std::pair{"decode --tokenizer t.model --output ./t.model d", "t.model"},
       }) {
    const std::string before = read_text_file(shell.folder.file(file));
    const Outcome outcome = shell.run(std::string(arguments) + " --force");
    CHECK(outcome.code == 1);
    CHECK(outcome.err.find("is read here") != std::string::npos);
    CHECK(read_text_file(shell.folder.file(file)) == before);
  }
}

TEST_CASE("genesis_tokenize learns from a line without spaces, and a refused tokenizer leaves no file") {
  const Shell shell("genesis_tokenize");
  std::string dna;
  for (unsigned i = 0, x = 1; i < 20000; ++i, x = x * 1664525 + 1013904223) dna += "ACGT"[x >> 30];
  shell.folder.put("dna.txt", dna);
  shell.folder.put("zh.jsonl", "{\"text\": \"\u4e00\u4e8c\u4e09\u4e00\u4e8c\u4e09\u56db\u4e94\"}\n");
  CHECK(shell.run("train --vocab-size 320 --output t.model dna.txt").code == 0);
  CHECK(shell.run("encode --tokenizer t.model --output d dna.txt zh.jsonl").code == 0);
  CHECK(lacks(shell.run("decode --tokenizer t.model d").out, dna) == "");
  CHECK(shell.run("train --vocab-size 264 --output zh.model zh.jsonl").code == 0);
  const Outcome refused = shell.run("train --vocab-size 5000 --output none.model zh.jsonl");
  CHECK(refused.code == 1);
  CHECK(lacks(refused.err, "ask for at most ") == "");
  CHECK(!shell.exists("none.model"));
  CHECK(!shell.exists("none.model.tmp"));
}

TEST_CASE("genesis_tokenize reads pipes and standard input") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model - <page.md").code == 0);
  const auto piped = [&](const std::string& arguments, const std::string& from) {
    const Outcome outcome = shell.run("encode --force --tokenizer t.model --output d " + arguments + from);
    CHECK(outcome.code == 0);
    return shell.run("decode --tokenizer t.model d").out;
  };
  CHECK(piped("-", " <page.md") == kPage);
  CHECK(piped("/dev/stdin", " <page.md") == kPage);
  CHECK(piped("- page.md", " </dev/null") == kPage);
  shell.folder.put("page.sh", "(sleep 0.1; cat page.md) | \"$@\"\n");
  const std::string program = std::string(GENESIS_BIN_DIR) + "/genesis_tokenize";
  const std::string in = "cd " + shell.folder.path().string() + " && ";
  REQUIRE(std::system((in + "sh page.sh " + program +
                       " encode --force --tokenizer t.model --output d - 2>/dev/null >&2")
                          .c_str()) == 0);
  CHECK(shell.run("decode --tokenizer t.model d").out == kPage);
  // A FIFO that is written to later, as bash's <(...) is.
  REQUIRE(mkfifo(shell.folder.file("fifo").c_str(), 0600) == 0);
  REQUIRE(std::system((in + "{ (sleep 0.2; cat page.md >fifo) & " + program +
                       " encode --force --tokenizer t.model --output d " + shell.folder.file("fifo") +
                       " 2>/dev/null >&2; }")
                          .c_str()) == 0);
  CHECK(shell.run("decode --tokenizer t.model d").out == kPage);
  const Outcome twice = shell.run("encode --force --tokenizer t.model --output d - - <page.md");
  CHECK(lacks(twice.err, "standard input (-) is named 2 times") == "");
  const Outcome held = shell.run(
      "encode --force --tokenizer t.model --validation-fraction 0.1 --validation-output v --output d - "
      "<page.md");
  CHECK(lacks(held.err, "reads the text twice") == "");
}

TEST_CASE("no program waits for a FIFO where it wants a file") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.md").code == 0);
  REQUIRE(shell.run("encode --tokenizer t.model --output d page.md").code == 0);
  for (const std::string file : {"d.bin", "d.idx", "d.json", "t.model"}) {
    const std::string path = shell.folder.file(file), aside = shell.folder.file("aside");
    for (const bool fifo : {true, false}) {
      fs::rename(path, aside);
      if (fifo) {
        REQUIRE(mkfifo(path.c_str(), 0600) == 0);
      } else {
        fs::create_directory(path);
      }
      const Outcome outcome = shell.run("decode --tokenizer t.model d");
      CHECK(outcome.code == 1);
      CHECK(lacks(outcome.err, file + ": it is not a regular file but a " + (fifo ? "FIFO" : "folder")) ==
            "");
      fs::remove(path);
      fs::rename(aside, path);
    }
  }
}

TEST_CASE("genesis_tokenize leaves nothing when it is interrupted, and minds nothing that a kill left") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.md").code == 0);
  REQUIRE(mkfifo(shell.folder.file("fifo").c_str(), 0600) == 0);
  const std::string program = std::string(GENESIS_BIN_DIR) + "/genesis_tokenize";
  const std::string in = "cd " + shell.folder.path().string() + " && ";
  // The FIFO is held open and never written to: the program waits, its temporaries are there.
  shell.folder.put("interrupt.sh",
                   "signal=$1 file=$2; shift 2\n"
                   "env --default-signal=INT,TERM,HUP " +
                       program +
                       " $@ 2>err & pid=$!\n"
                       "exec 3>fifo\n"
                       "until [ -e $file ]; do sleep 0.01; done\n"
                       "kill -$signal $pid; wait $pid; echo $? >code\n");
  const auto interrupt = [&](const std::string& arguments) {
    std::system((in + "sh -m interrupt.sh " + arguments + " 2>/dev/null").c_str());
    return std::stoi(read_text_file(shell.folder.file("code")));
  };
  for (const auto& [name, number] :
       {std::pair{"INT", 2}, std::pair{"TERM", 15}, std::pair{"HUP", 1}, std::pair{"KILL", 9}}) {
    CHECK(interrupt(std::string(name) + " d.bin.tmp encode --tokenizer t.model --output d page.md fifo") ==
          128 + number);
    CHECK(shell.exists("d.bin.tmp") == (number == 9));
    CHECK(shell.exists("d.bin.lock.tmp") == (number == 9));
    CHECK(shell.exists("d.lengths.tmp") == (number == 9));
    CHECK(!shell.exists("d.bin"));
    CHECK(interrupt(std::string(name) +
                    " n.model.lock.tmp train --vocab-size 600 --output n.model page.md fifo") ==
          128 + number);
    CHECK(shell.exists("n.model.lock.tmp") == (number == 9));
    CHECK(!shell.exists("n.model.tmp"));
    CHECK(!shell.exists("n.model"));
  }
  CHECK(shell.run("train --vocab-size 600 --output n.model page.md").code == 0);
  CHECK(!shell.exists("n.model.lock.tmp"));
  CHECK(shell.run("encode --tokenizer t.model --output d page.md").code == 0);
  CHECK(shell.run("decode --tokenizer t.model d").out == kPage);
  CHECK(!shell.exists("d.bin.tmp"));
  CHECK(!shell.exists("d.lengths.tmp"));
}

TEST_CASE("two at once never write one output") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  shell.folder.put("other.md", kPage + kPage);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.md").code == 0);
  REQUIRE(mkfifo(shell.folder.file("fifo").c_str(), 0600) == 0);
  const std::string program = std::string(GENESIS_BIN_DIR) + "/genesis_tokenize";
  // The first waits for its text while the second is tried, interrupted or not.
  shell.folder.put("two.sh",
                   program +
                       " encode --tokenizer t.model --output d fifo >first 2>&1 & pid=$!\n"
                       "exec 3>fifo\n"
                       "until [ -e d.bin.tmp ]; do sleep 0.01; done\n" +
                       program +
                       " encode --tokenizer t.model --force --validation-fraction 0.1 --validation-output v"
                       " --output d other.md >second 2>&1; echo $? >code\n"
                       "cat page.md >&3; exec 3>&-; wait $pid; echo $? >>code\n");
  std::system(("cd " + shell.folder.path().string() + " && sh two.sh").c_str());
  CHECK(read_text_file(shell.folder.file("code")) == "1\n0\n");
  CHECK(lacks(read_text_file(shell.folder.file("second")), "d.bin: is being written by another process") ==
        "");
  CHECK(shell.run("decode --tokenizer t.model d").out == kPage);
  for (const char* name : {"d.bin.lock.tmp", "v.bin.lock.tmp", "v.bin", "v.bin.tmp", "d.bin.tmp"})
    CHECK(!shell.exists(name));
  CHECK(shell.run("decode --tokenizer t.model d --output text").code == 0);
  CHECK(!shell.exists("text.lock.tmp"));

  shell.folder.put("two.sh",
                   program +
                       " train --vocab-size 600 --output n.model page.md fifo >first 2>&1 & pid=$!\n"
                       "exec 3>fifo\n"
                       "until [ -e n.model.lock.tmp ]; do sleep 0.01; done\n" +
                       program +
                       " train --vocab-size 500 --force --output n.model other.md >second 2>&1\n"
                       "echo $? >code; cat page.md >&3; exec 3>&-; wait $pid; echo $? >>code\n");
  std::system(("cd " + shell.folder.path().string() + " && sh two.sh").c_str());
  CHECK(read_text_file(shell.folder.file("code")) == "1\n0\n");
  CHECK(lacks(read_text_file(shell.folder.file("second")), "n.model: is being written by another process") ==
        "");
  CHECK(lacks(read_text_file(shell.folder.file("first")), "600 pieces") == "");
  for (const char* name : {"n.model.lock.tmp", "n.model.tmp"}) CHECK(!shell.exists(name));
}

TEST_CASE("genesis_tokenize writes through the links that stand under its outputs' names") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  fs::create_directory(shell.folder.path() / "disk");
  const std::vector<std::string> names{"t.model", "d.bin", "d.idx",  "d.json",
                                       "v.bin",   "v.idx", "v.json", "text"};
  for (const std::string& name : names) fs::create_symlink("disk/" + name, shell.folder.path() / name);
  const std::string commands[] = {"train --vocab-size 600 --output t.model page.md",
                                  "encode --tokenizer t.model --output d --validation-fraction 0.2 "
                                  "--validation-output v page.md",
                                  "decode --tokenizer t.model d --output text"};
  for (const char* force : {"", " --force"}) {
    for (const std::string& command : commands) CHECK(shell.run(command + force).code == 0);
    for (const std::string& name : names) {
      CHECK(fs::is_symlink(shell.folder.path() / name));
      CHECK(shell.exists("disk/" + name));
    }
  }
  for (const std::string& command : commands) {
    const Outcome outcome = shell.run(command);
    CHECK(outcome.code == 1);
    CHECK(lacks(outcome.err, "is there already; --force replaces it") == "");
  }
  CHECK(std::distance(fs::directory_iterator(shell.folder.path() / "disk"), {}) == 8);

  // A link into a folder that is not there, one to itself, and a device.
  fs::create_symlink("none/x", shell.folder.path() / "a");
  fs::create_symlink("b", shell.folder.path() / "b");
  fs::create_symlink("/dev/null", shell.folder.path() / "c");
  for (const auto& [name, why] : {std::pair{"a", "there is no folder none"}, std::pair{"b", "in a circle"},
                                  std::pair{"c", "a character device"}}) {
    const Outcome outcome =
        shell.run(std::string("train --force --vocab-size 600 --output ") + name + " page.md");
    CHECK(outcome.code == 1);
    CHECK(lacks(outcome.err, std::string(name) + ": ") == "");
    CHECK(lacks(outcome.err, why) == "");
  }
}

TEST_CASE("genesis_tokenize says what it skipped, and why a line cannot be used") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.md").code == 0);
  shell.folder.put("a.jsonl",
                   "{\"text\": \"one\"}\n{\"text\": null}\n{\"text\": null}\nplain\n{\"text\": \"two\"}\n");
  const std::string encode = "encode --tokenizer t.model --output d a.jsonl";
  const Outcome refused = shell.run(encode);
  CHECK(refused.code == 1);
  CHECK(lacks(refused.err,
              "a.jsonl: line 2 is not an object whose field \"text\" is a string: that is null; "
              "--skip-invalid") == "");
  const Outcome skipped = shell.run(encode + " --skip-invalid");
  CHECK(skipped.code == 0);
  CHECK(lacks(skipped.err,
              "skipped 2 lines; each is not an object whose field \"text\" is a string: that is null") == "");
  CHECK(lacks(skipped.err, "skipped 1 line that is not JSON\n  the first: a.jsonl: line 4 is not JSON") ==
        "");
  CHECK(lacks(skipped.out, "2 documents") == "");
  CHECK(shell.run("encode --tokenizer t.model --format text --output x a.jsonl").code == 0);
  CHECK(shell.run("encode --tokenizer t.model --format csv --output y a.jsonl").code == 2);
}

TEST_CASE("genesis_tokenize names a separator that cannot be meant and a text with nothing to hold out") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  shell.folder.put("line.txt", std::string(5000, 'x'));
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.md").code == 0);
  const std::string encode = "encode --tokenizer t.model --output d ";
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    const Outcome outcome = shell.run(arguments);
    CHECK(outcome.code == 1);
    CHECK(lacks(outcome.err, message) == "");
  };
  refused(encode + "--separator '<|>' page.md", "the separator does not occur in the text");
  refused("train --vocab-size 600 --separator '<|>' --output n.model page.md",
          "the separator does not occur");
  refused(encode + "--separator 'a\\q' page.md", "--separator: \\q is no escape");
  refused(encode + "--separator 'a\\' page.md", "--separator: \\ is no escape");
  const std::string hold = " --validation-fraction 0.1 ";
  refused(encode + hold + "--validation-output v line.txt",
          "nothing would be held out for validation: of 5000 bytes of text the last 500 are wanted");
  refused("train --vocab-size 300" + hold + "--output n.model line.txt", "nothing would be held out");
  for (const char* name : {"d.bin", "d.json", "d.bin.tmp", "v.bin", "n.model"}) CHECK(!shell.exists(name));
}

TEST_CASE("genesis_tokenize says what a limit of the system means") {
  const Shell shell("genesis_tokenize");
  shell.folder.put("page.md", kPage);
  REQUIRE(shell.run("train --vocab-size 600 --output t.model page.md").code == 0);
  const std::string program = std::string(GENESIS_BIN_DIR) + "/genesis_tokenize";
  const auto limited = [&](const std::string& limit, const std::string& arguments) {
    const std::string command = "cd " + shell.folder.path().string() + " && " + limit + " && " + program +
                                " " + arguments + " 2>err >&2";
    CHECK(WEXITSTATUS(std::system(command.c_str())) == 1);
    return read_text_file(shell.folder.file("err"));
  };
  std::string frame = zstandard_stream(kPage);
  frame[5] = char(21 << 3);  // a window of 2 GiB
  shell.folder.put("long.zst", frame);
  CHECK(shell.run("encode --tokenizer t.model --output d long.zst").code == 0);
  CHECK(lacks(limited("ulimit -v 1500000", "encode --tokenizer t.model --output e long.zst"),
              "long.zst: there is not enough memory for its zstd window") == "");
  fs::create_directory(shell.folder.path() / "folder");
  CHECK(lacks(shell.run("encode --tokenizer t.model --output f folder").err, "folder: it is a folder") == "");
}
