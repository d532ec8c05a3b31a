// What must not change a sequence's result: how tokens are put into steps, and where blocks lie.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backplane/dtype.hpp"
#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/levels/steps.hpp"
#include "sdk/conformance/support/step_fixture.hpp"

namespace bp::conformance {

namespace {

void append(Floats& all, const Floats& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Prompts and decodes as the engine runs them most often.
void agrees_with_reference(StepFixture& f) {
  const uint32_t b = f.block_size();
  for (const uint32_t n : {1u, 2u, b - 1, b, b + 1, 2 * b, 3 * b + 5}) {
    const Tokens tokens = f.tokens("reference", n + 3);
    const Blocks blocks = f.blocks(1, tokens.size());
    f.expect("a prompt of " + std::to_string(n) + " tokens", tokens, 0,
             f.session().logits(slice(tokens, 0, n), 0, blocks));
    for (uint32_t at = n; at < tokens.size(); ++at) {
      f.expect("the token decoded at position " + std::to_string(at), tokens, at,
               f.session().logits({tokens[at]}, at, blocks));
    }
  }
}

void decodes_token_by_token(StepFixture& f) {
  const Tokens tokens = f.tokens("decode", 2 * f.block_size() + 2);
  const Blocks blocks = f.blocks(1, tokens.size());
  for (uint32_t at = 0; at < tokens.size(); ++at) {
    f.expect("a prompt run token by token, at position " + std::to_string(at), tokens, at,
             f.session().logits({tokens[at]}, at, blocks));
  }
}

void chunks_equal_the_whole(StepFixture& f) {
  const uint32_t b = f.block_size(), n = 3 * b + 5;
  const Tokens tokens = f.tokens("chunks", n);
  for (std::vector<uint32_t> cuts : {std::vector<uint32_t>{1},
                                     {b - 1},
                                     {b},
                                     {b + 1, 2 * b},
                                     {3, b, 2 * b - 1, 2 * b + 1},
                                     {n - 1},
                                     {5, 6, 7, n - 2}}) {
    cuts.push_back(n);
    uint32_t begin = 0;
    for (const uint32_t end : cuts) {
      const Floats found = f.session().logits(slice(tokens, begin, end), begin, f.blocks(20, n));
      f.expect("a chunk of positions " + std::to_string(begin) + " to " + std::to_string(end - 1),
               tokens, begin, found);
      begin = end;
    }
  }
}

void sequences_in_any_order(StepFixture& f) {
  const uint32_t b = f.block_size();
  std::vector<Tokens> prompts;
  for (const uint32_t n : {b + 3, 1u, 7u, 2 * b, b - 1}) {
    prompts.push_back(f.tokens("order" + std::to_string(n), n));
  }
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 4, 1, 0, 3}}) {
    std::vector<SequenceStep> batch;
    for (const uint32_t s : order) {
      batch.push_back(
          {prompts[s], 0, f.blocks(1 + 3 * static_cast<int32_t>(s), prompts[s].size())});
    }
    const auto found = f.session().step(batch);
    for (size_t i = 0; i < order.size(); ++i) {
      f.expect("sequence " + std::to_string(i) + " of a batch of prompts", prompts[order[i]], 0,
               found[i]);
    }
  }
}

// A prompt, the middle of a prompt, and decodes, in one batch.
void mixes_prefill_and_decode(StepFixture& f) {
  const uint32_t b = f.block_size();
  const Tokens decoded = f.tokens("mixed-decode", 2 * b + 1),
               chunk = f.tokens("mixed-chunk", 2 * b), prompt = f.tokens("mixed-prompt", b + 2),
               one = f.tokens("mixed-one", 6);
  const auto last = static_cast<uint32_t>(decoded.size() - 1);
  f.session().step({{slice(decoded, 0, last), 0, f.blocks(1, decoded.size())},
                    {slice(chunk, 0, b / 2), 0, f.blocks(10, chunk.size())},
                    {slice(one, 0, 5), 0, f.blocks(30, one.size())}});
  const auto found =
      f.session().step({{{decoded[last]}, last, f.blocks(1, decoded.size())},
                        {prompt, 0, f.blocks(20, prompt.size())},
                        {slice(chunk, b / 2, b + 3), b / 2, f.blocks(10, chunk.size())},
                        {{one[5]}, 5, f.blocks(30, one.size())}});
  f.expect("a decode beside prompts", decoded, last, found[0]);
  f.expect("a prompt beside decodes", prompt, 0, found[1]);
  f.expect("a chunk beside decodes", chunk, b / 2, found[2]);
  f.expect("a decode at the end of the batch", one, 5, found[3]);
}

void decodes_many_at_once(StepFixture& f) {
  constexpr uint32_t n_seqs = 16;
  std::vector<Tokens> prompts;
  std::vector<SequenceStep> filled, decoded;
  for (uint32_t s = 0; s < n_seqs; ++s) {
    const uint32_t n = f.block_size() - n_seqs / 2 + s;  // contexts on both sides of a border
    prompts.push_back(f.tokens("many" + std::to_string(s), n));
    const Blocks blocks = f.blocks(1 + 2 * static_cast<int32_t>(s), n);
    filled.push_back({slice(prompts[s], 0, n - 1), 0, blocks});
    decoded.push_back({{prompts[s].back()}, n - 1, blocks});
  }
  f.session().step(filled);
  const auto found = f.session().step(decoded);
  for (uint32_t s = 0; s < n_seqs; ++s) {
    f.expect("decode " + std::to_string(s) + " of 16 in one step", prompts[s],
             prompts[s].size() - 1, found[s]);
  }
}

void writes_the_rows_asked_for(StepFixture& f) {
  const Tokens a = f.tokens("rows-a", f.block_size() + 4), b = f.tokens("rows-b", 5),
               c = f.tokens("rows-c", 3);
  const auto last = static_cast<uint32_t>(a.size() - 1);
  TransformerSession::Extras extras;
  extras.hidden_rows = {1, last, last + 3};
  const std::vector<SequenceStep> batch = {{a, 0, f.blocks(1, a.size()), {0, 3, last}, true},
                                           {b, 0, f.blocks(9, b.size()), {}, true},
                                           {c, 0, f.blocks(12, c.size()), {1, 2}, true}};
  const auto found = f.session().step(batch, extras);
  Floats expected = f.alone(a, 0, 1);
  append(expected, f.alone(a, 3, 4));
  append(expected, f.alone(a, last, last + 1));
  f.expect_equal("rows 0, 3 and the last of a sequence", expected, found[0]);
  f.expect("rows 1 and 2 of the last sequence", c, 1, found[2]);
  f.reference().step(batch, extras);
  f.expect_equal("rows of the hidden states, other than those of the logits",
                 f.reference().hidden(), f.session().hidden());
}

// The same step again writes the same KV, as after a failed step.
void repeats_a_step(StepFixture& f) {
  const Tokens tokens = f.tokens("repeat", f.block_size() + 6);
  const Blocks blocks = f.blocks(4, tokens.size());
  for (int time = 0; time < 2; ++time) {
    f.session().logits(slice(tokens, 0, 9), 0, blocks);
    f.expect("a chunk that is run again", tokens, 9,
             f.session().logits(slice(tokens, 9, tokens.size()), 9, blocks));
  }
}

void try_types(Subject& subject, const std::vector<bp_dtype>& weights,
               const std::vector<bp_dtype>& kv) {
  std::string refused;
  uint32_t n_run = 0;
  for (const bp_dtype weight_type : weights) {
    for (const bp_dtype kv_type : kv) {
      TransformerSession::Options options;
      options.shape.weights = weight_type;
      options.kv = kv_type;
      try {
        StepFixture f(subject, options);
        const Tokens tokens = f.tokens("types", f.block_size() + 9);
        const auto last = static_cast<uint32_t>(tokens.size() - 1);
        const Blocks blocks = f.blocks(1, tokens.size());
        f.session().logits(slice(tokens, 0, last), 0, blocks);
        const std::string what = "weights of " + std::string(dtype_name(weight_type)) +
                                 " and a KV cache of " + std::string(dtype_name(kv_type));
        f.expect("with " + what, tokens, last, f.session().logits({tokens[last]}, last, blocks));
        ++n_run;
      } catch (const Skip& skip) {
        refused = skip.what();
      }
    }
  }
  if (n_run == 0) throw Skip(refused);
}

// With the most exact type of the KV cache that the backend keeps.
void weight_types_stay_within_rounding(Subject& subject) {
  const std::vector<bp_dtype> weights = {BP_DTYPE_F16,  BP_DTYPE_BF16, BP_DTYPE_Q8_0,
                                         BP_DTYPE_Q4_0, BP_DTYPE_Q4_1, BP_DTYPE_Q5_0};
  for (const bp_dtype kv : {BP_DTYPE_F32, BP_DTYPE_F16}) {
    try {
      return try_types(subject, weights, {kv});
    } catch (const Skip&) {
    }
  }
  try_types(subject, weights, {BP_DTYPE_BF16});
}

Test both_layouts(const char* name, const char* description, void (*run)(StepFixture&)) {
  return {name, "steps", description, [run](Subject& s) { for_both_layouts(s, run); }};
}

}  // namespace

void add_steps_tests(Subject&, Tests& tests) {
  const Test listed[] = {
      both_layouts("steps-agree-with-reference",
                   "prompts around the size of a block and decodes after them give the reference's "
                   "logits",
                   agrees_with_reference),
      both_layouts("steps-token-by-token", "a prompt run one token a step gives the same logits",
                   decodes_token_by_token),
      both_layouts("steps-chunked-prefill", "chunks of a prompt give what the whole prompt gives",
                   chunks_equal_the_whole),
      both_layouts("steps-permuted-sequences",
                   "neighbours in the batch and their order do not matter", sequences_in_any_order),
      both_layouts("steps-mixed-batch",
                   "prompts, chunks and decodes in one batch give what each "
                   "gives alone",
                   mixes_prefill_and_decode),
      both_layouts("steps-many-decodes", "16 decodes in one step give what each gives alone",
                   decodes_many_at_once),
      both_layouts("steps-output-rows", "any rows of any program output are written, and no others",
                   writes_the_rows_asked_for),
      both_layouts("steps-repeated", "a step that is run again gives the same", repeats_a_step),
      {"steps-kv-types", "steps", "each type of the KV cache stays within its rounding",
       [](Subject& s) {
         try_types(s, {BP_DTYPE_F32},
                   {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F8_E4M3, BP_DTYPE_Q8_0,
                    BP_DTYPE_Q4_0});
       }},
      {"steps-weight-types", "steps", "each type of weights stays within its rounding",
       weight_types_stay_within_rounding},
  };
  tests.insert(tests.end(), std::begin(listed), std::end(listed));
  add_block_steps_tests(tests);
  add_state_steps_tests(tests);
  add_transfer_steps_tests(tests);
  add_sampling_steps_tests(tests);
  add_chosen_steps_tests(tests);
  add_in_flight_steps_tests(tests);
}

}  // namespace bp::conformance
