#include "sdk/conformance/support/step_fixture.hpp"

#include <algorithm>
#include <memory>

#include "sdk/conformance/resources.hpp"
#include "sdk/conformance/support/reference_factory.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kWindow = 24;

TransformerSession::Options with_block_size(TransformerSession::Options options, uint32_t size) {
  options.block_size = size;
  return options;
}

std::string layout_of(const TransformerShape& shape) {
  if (shape.window == 0) return {};
  return " (with a window of " + std::to_string(shape.window) + " in layer 1)";
}

}  // namespace

// Rounding of the ops' specs, three layers deep.
ErrorBound model_bound(bp_dtype weights, bp_dtype kv) {
  if (is_block_quantised(weights)) return {0.05, 0.3};
  if (kv == BP_DTYPE_Q4_0) return {0.2, 1.0};
  if (kv == BP_DTYPE_F8_E4M3) return {0.05, 0.4};
  if (weights == BP_DTYPE_BF16 || kv == BP_DTYPE_Q8_0) return {0.03, 0.15};
  if (weights == BP_DTYPE_F16 || kv == BP_DTYPE_BF16) return {0.015, 0.08};
  if (kv == BP_DTYPE_F16) return {0.005, 0.05};
  return {2e-4, 2e-3};
}

Tokens slice(const Tokens& tokens, size_t begin, size_t end) {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(begin),
          tokens.begin() + static_cast<std::ptrdiff_t>(end)};
}

StepFixture::StepFixture(Subject& subject, const TransformerSession::Options& options)
    : layout_(layout_of(options.shape)),
      seed_(subject.options().seed),
      bound_(model_bound(options.shape.weights, options.kv)),
      specs_(load_op_specs(op_specs_folder())),
      factory_(subject.factory<bp_backend_factory>(BP_BACKEND_ID)),
      session_(factory_, &subject.params(), specs_, options),
      reference_(kReference, nullptr, specs_, with_block_size(options, session_.block_size())),
      block_size_(session_.block_size()) {}

Tokens StepFixture::tokens(const std::string& name, size_t n) const {
  std::mt19937 engine(seed_of(std::to_string(seed_) + name));
  std::uniform_int_distribution<int32_t> id(0, SmallTransformer::kNanToken - 1);
  Tokens tokens(n);
  for (int32_t& token : tokens) token = id(engine);
  return tokens;
}

Blocks StepFixture::blocks(int32_t first, size_t n_tokens, int32_t step) const {
  Blocks blocks;
  for (size_t i = 0; i * block_size_ < n_tokens; ++i) {
    blocks.push_back(first + static_cast<int32_t>(i) * step);
  }
  return blocks;
}

const Floats& StepFixture::alone(const Tokens& tokens) {
  const auto known = alone_.find(tokens);
  if (known != alone_.end()) return known->second;
  const auto n_blocks = static_cast<int32_t>(blocks(1, tokens.size()).size());
  const Blocks far =
      blocks(static_cast<int32_t>(TransformerSession::kBlocks) - n_blocks, tokens.size());
  Floats found = session_.logits(tokens, 0, far);
  const Floats expected = reference_.logits(tokens, 0, far);
  const std::string wrong = wrong_at(0, expected, found);
  if (!wrong.empty()) {
    throw Failure("a prompt of " + std::to_string(tokens.size()) +
                  " tokens alone differs from the reference" + layout_ + ": logits " + wrong);
  }
  return alone_[tokens] = std::move(found);
}

Floats StepFixture::alone(const Tokens& tokens, size_t begin, size_t end) {
  const Floats& all = alone(tokens);
  const auto at = [&](size_t row) {
    return all.begin() + static_cast<std::ptrdiff_t>(row * SmallTransformer::kVocab);
  };
  return {at(begin), at(end)};
}

void StepFixture::expect(const std::string& what, const Tokens& tokens, size_t begin,
                         const Floats& found) {
  const size_t n = found.size() / SmallTransformer::kVocab;
  const std::string wrong = wrong_at(begin, alone(tokens, begin, begin + n), found);
  if (!wrong.empty()) throw Failure(what + layout_ + ": logits " + wrong);
}

std::string StepFixture::wrong_at(size_t begin, const Floats& expected, const Floats& found) const {
  const std::string wrong = compare(expected, found, bound_, SmallTransformer::kVocab);
  if (wrong.empty()) return {};
  const size_t row = difference(expected, found, bound_).at / SmallTransformer::kVocab;
  const size_t position = begin + row;
  return wrong + "; position " + std::to_string(position) + " is slot " +
         std::to_string(position % block_size_) + " of the sequence's block " +
         std::to_string(position / block_size_);
}

void StepFixture::expect_equal(const std::string& what, const Floats& expected,
                               const Floats& found) const {
  const std::string wrong = compare(expected, found, bound_, SmallTransformer::kVocab);
  if (!wrong.empty()) throw Failure(what + layout_ + ": logits " + wrong);
}

namespace {

// The first types that the backend takes, from the most exact on; the sentence of the first refusal
// where it takes none.
std::unique_ptr<StepFixture> fixture_of(Subject& subject, uint32_t window, bool transfers = false) {
  std::string sentence;
  for (const bp_dtype weights : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_Q8_0}) {
    for (const bp_dtype kv : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16}) {
      TransformerSession::Options options;
      options.shape = {weights, window, subject.options().seed};
      options.kv = kv;
      options.transfers = transfers;
      try {
        return std::make_unique<StepFixture>(subject, options);
      } catch (const Skip& skip) {
        if (sentence.empty()) sentence = skip.what();
      }
    }
  }
  throw Skip(sentence);
}

}  // namespace

namespace {

void for_layouts(Subject& subject, bool transfers, const std::function<void(StepFixture&)>& test) {
  test(*fixture_of(subject, 0, transfers));
  std::unique_ptr<StepFixture> windowed;
  try {
    windowed = fixture_of(subject, kWindow, transfers);
  } catch (const Skip&) {
    return;  // the test of windows alone says so
  }
  test(*windowed);
}

}  // namespace

void for_both_layouts(Subject& subject, const std::function<void(StepFixture&)>& test) {
  for_layouts(subject, false, test);
}

void for_windows(Subject& subject, const std::function<void(StepFixture&)>& test) {
  test(*fixture_of(subject, kWindow));
}

void for_transfers(Subject& subject, const std::function<void(StepFixture&)>& test) {
  for_layouts(subject, true, test);
}

}  // namespace bp::conformance
