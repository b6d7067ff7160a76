// genesis_tokenize as its user meets it: the program itself, run in a folder of its own.
#include "io/dataset.h"
#include "tests/apps/shell.h"
#include "tests/support/catch.h"
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
