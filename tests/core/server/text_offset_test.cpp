// Where tokens of /v1/completions stand in the text: logprobs.text_offset.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/server/answer_format.hpp"
#include "fixture.hpp"
#include "tests/core/text/small_vocabulary.hpp"

namespace bp::server::testing {
namespace {

constexpr char kSpaceMark[] = "\xE2\x96\x81";

class TextOffsetTest : public ServerTest {
 protected:
  TextOffsetTest() {
    control_tokens = {"[HIDDEN]"};
    reply =
        "a[HIDDEN]\xC3\xBC"
        "b";
    start();
  }
};

TEST_F(TextOffsetTest, ControlTokensThatAreNotShownTakeNoRoom) {
  const Json more = {{"logprobs", 0}, {"max_tokens", 16}};
  const std::string prompt = "<|start|>assistant\n";
  const Json choice = complete(prompt, more)->json()["choices"][0];
  EXPECT_EQ(choice["text"],
            "a\xC3\xBC"
            "b");
  EXPECT_EQ(choice["logprobs"]["tokens"],
            (Json{"a", "[HIDDEN]", "\uFFFD", "\uFFFD", "b", "<|im_end|>"}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], (Json{0, 1, 1, 2, 2, 3}));

  Json streamed = more;
  streamed["stream"] = true;
  Json offsets = Json::array();
  for (const Json& event : complete(prompt, streamed)->events()) {
    const Json& logprobs = event["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;
    for (const Json& offset : logprobs["text_offset"]) offsets.push_back(offset);
  }
  EXPECT_EQ(offsets, choice["logprobs"]["text_offset"]);
}

TEST_F(TextOffsetTest, ControlTokensOfAnEchoedPromptTakeRoom) {
  const Json more = {{"logprobs", 0}, {"max_tokens", 3}, {"echo", true}};
  const Json choice = complete("<|start|>assistant\n", more)->json()["choices"][0];
  EXPECT_EQ(choice["text"], "<|start|>assistant\na\uFFFD") << "the last character is cut";
  const Json& offsets = choice["logprobs"]["text_offset"];
  ASSERT_EQ(offsets.size(), 14U);
  EXPECT_EQ(offsets[0], 0);
  EXPECT_EQ(offsets[1], 9);
  EXPECT_EQ(std::vector<Json>(offsets.begin() + 11, offsets.end()),
            (std::vector<Json>{19, 20, 20}));
}

// The whole answer of a SentencePiece vocabulary, of which <s> is 1 and the pieces come from 259
// on.
class LeadingSpaceTest : public ::testing::Test {
 protected:
  Json choice(std::vector<int32_t> prompt, const std::vector<int32_t>& tokens, bool echo = true,
              bool has_added_bos = false) {
    TextCall call;
    const std::string text =
        tokenizer->decode(std::span(prompt).subspan(has_added_bos ? 1 : 0), {.special = true});
    call.prompts.push_back({text, std::move(prompt), has_added_bos});
    call.request.logprobs = true;
    call.echo = echo;
    ChoiceText answer;
    const bool at_start = tokenizer->is_special(call.prompts[0].ids.back());
    answer.text = tokenizer->decode(tokens, {.at_start = at_start});
    answer.tokens = tokens;
    for (const int32_t token : tokens) answer.logprobs.push_back({{token, -1.0F}, {}});
    const auto format = make_completion_format({"cmpl-1", 0, "tiny"}, call, tokenizer);
    return Json::parse(format->whole(std::span(&answer, 1), {}))["choices"][0];
  }

  std::shared_ptr<const text::Tokenizer> tokenizer =
      text::testing::make_tokenizer(text::testing::sentencepiece_vocabulary(
          {std::string(kSpaceMark) + "Once", std::string(kSpaceMark) + "upon"}));
};

TEST_F(LeadingSpaceTest, CountsForNothingWhereDecodingDropsIt) {
  const Json echoed = choice({259, 260}, {260, 2, 260});
  EXPECT_EQ(echoed["text"], "Once upon upon upon");
  EXPECT_EQ(echoed["logprobs"]["text_offset"], (Json{0, 4, 9, 14, 14}));

  const Json added_bos = choice({1, 259, 260}, {260}, true, true);
  EXPECT_EQ(added_bos["text"], "Once upon upon");
  EXPECT_EQ(added_bos["logprobs"]["text_offset"], (Json{0, 0, 4, 9}));

  const Json given_bos = choice({1, 259, 260}, {260});
  EXPECT_EQ(given_bos["text"], "<s>Once upon upon");
  EXPECT_EQ(given_bos["logprobs"]["text_offset"], (Json{0, 3, 7, 12}));
}

TEST_F(LeadingSpaceTest, CountsInAnAnswerThatGoesOnWithAText) {
  EXPECT_EQ(choice({259}, {260, 260}, false)["logprobs"]["text_offset"], (Json{0, 5}));
  EXPECT_EQ(choice({1}, {259, 260}, false)["text"], "Once upon");
  EXPECT_EQ(choice({1}, {259, 260}, false)["logprobs"]["text_offset"], (Json{0, 4}));
}

}  // namespace
}  // namespace bp::server::testing
