// Blocks of the KV cache: scattered, shared, copied, cleared, stale, freed and used again.

#include <algorithm>
#include <cmath>
#include <random>

#include "sdk/conformance/levels/steps.hpp"
#include "sdk/conformance/support/step_fixture.hpp"

namespace bp::conformance {

namespace {

constexpr auto kNan = SmallTransformer::kNanToken;

void blocks_lie_anywhere(StepFixture& f) {
  const Tokens tokens = f.tokens("scattered", 3 * f.block_size() + 5);
  const auto last = static_cast<uint32_t>(tokens.size() - 1);
  for (const Blocks& blocks :
       {Blocks{4, 3, 2, 1}, Blocks{1, 21, 5, 17}, Blocks{40, 2, 39, 3}, Blocks{7, 8, 10, 9}}) {
    f.session().logits(slice(tokens, 0, last), 0, blocks);
    f.expect("a decode after a prompt in scattered blocks", tokens, last,
             f.session().logits({tokens[last]}, last, blocks));
  }
}

void prefixes_are_shared(StepFixture& f) {
  const uint32_t b = f.block_size();
  const Tokens prefix = f.tokens("prefix", 2 * b);
  Tokens one = prefix, other = prefix;
  for (const int32_t t : f.tokens("suffix-1", 5)) one.push_back(t);
  for (const int32_t t : f.tokens("suffix-2", 3)) other.push_back(t);
  f.session().logits(prefix, 0, {10, 11});
  const auto found = f.session().step({{slice(one, 2 * b, one.size()), 2 * b, {10, 11, 12}},
                                       {slice(other, 2 * b, other.size()), 2 * b, {10, 11, 13}}});
  f.expect("the first of two sequences that share a prefix's blocks", one, 2 * b, found[0]);
  f.expect("the second of two sequences that share a prefix's blocks", other, 2 * b, found[1]);
}

void tables_have_padding(StepFixture& f) {
  const Tokens longer = f.tokens("padding-long", 2 * f.block_size() + 3),
               shorter = f.tokens("padding-short", 4);
  TransformerSession::Extras extras;
  extras.table_padding = 7;
  const auto found = f.session().step(
      {{shorter, 0, f.blocks(30, shorter.size())}, {longer, 0, f.blocks(1, longer.size())}},
      extras);
  f.expect("a short sequence in wide block tables", shorter, 0, found[0]);
  f.expect("a long sequence in wide block tables", longer, 0, found[1]);
}

// Blocks full of another sequence's KV, NaN among it, are handed out again.
void stale_content_does_not_matter(StepFixture& f) {
  const uint32_t b = f.block_size();
  Tokens poison(3 * b, kNan);
  f.session().logits(poison, 0, {5, 6, 7});
  const Tokens tokens = f.tokens("stale", b + 3);
  const auto last = static_cast<uint32_t>(tokens.size() - 1);
  const Blocks blocks = {6, 5};
  f.expect("a prompt in blocks that held NaN", tokens, 0,
           f.session().logits(slice(tokens, 0, last), 0, blocks));
  f.expect("a decode in blocks that held NaN", tokens, last,
           f.session().logits({tokens[last]}, last, blocks));
}

void nan_stays_in_its_sequence(StepFixture& f) {
  const uint32_t b = f.block_size();
  const Tokens good = f.tokens("beside-nan", b + 1), later = f.tokens("after-nan", 3);
  Tokens bad = f.tokens("nan", b + 2);
  bad[4] = kNan;
  const auto found = f.session().step({{good, 0, f.blocks(1, good.size())},
                                       {bad, 0, f.blocks(10, bad.size())},
                                       {later, 0, f.blocks(20, later.size())}});
  f.expect("a sequence before one with a NaN", good, 0, found[0]);
  f.expect("a sequence after one with a NaN", later, 0, found[2]);
  const Tokens clean = slice(bad, 0, 4);
  const size_t width = SmallTransformer::kVocab;
  f.expect("rows before a NaN of their own sequence", clean, 0,
           {found[1].begin(), found[1].begin() + static_cast<std::ptrdiff_t>(4 * width)});
  for (size_t i = 4 * width; i < 5 * width; ++i) {
    if (!std::isnan(found[1][i]))
      throw Failure("the logits of a token whose embedding is NaN are numbers");
  }
}

bp_block_op copy(int32_t source, int32_t destination) {
  return {BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, source, destination};
}
bp_block_op clear(int32_t block) {
  return {BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 0, 0, block};
}

// A fork: the last block is copied, then both sequences write into their own.
void copies_on_write(StepFixture& f) {
  const uint32_t b = f.block_size(), n = b + 4;
  const Tokens tokens = f.tokens("fork", n + 2);
  Tokens forked = slice(tokens, 0, n);
  for (const int32_t t : f.tokens("fork-other", 2)) forked.push_back(t);
  f.session().logits(slice(tokens, 0, n), 0, {1, 2});
  // What stands in the copy's destination before must go.
  f.session().logits(Tokens(2 * b, kNan), 0, {30, 31});
  TransformerSession::Extras extras;
  extras.block_ops = {copy(2, 30)};
  const auto found =
      f.session().step({{{tokens[n]}, n, {1, 2}}, {{forked[n]}, n, {1, 30}}}, extras);
  f.expect("the sequence whose block was copied", tokens, n, found[0]);
  f.expect("the sequence in the copied block", forked, n, found[1]);
  const auto later =
      f.session().step({{{tokens[n + 1]}, n + 1, {1, 2}}, {{forked[n + 1]}, n + 1, {1, 30}}});
  f.expect("the sequence whose block was copied, a step later", tokens, n + 1, later[0]);
  f.expect("the sequence in the copied block, a step later", forked, n + 1, later[1]);
}

// Zeros are what both backends attend to after a clear, so they agree.
void clears_before_the_step(StepFixture& f) {
  const uint32_t b = f.block_size(), last = 2 * b + 2;
  const Tokens tokens = f.tokens("clear", last + 1);
  const auto run = [&](TransformerSession& session) {
    session.logits(slice(tokens, 0, last), 0, {1, 2, 3});
    TransformerSession::Extras extras;
    extras.block_ops = {copy(2, 9), clear(2)};
    const std::vector<SequenceStep> both = {{{tokens[last]}, last, {1, 2, 3}}};
    Floats logits = session.step(both, extras).front();
    const Floats restored = session.logits({tokens[last]}, last, {1, 9, 3});
    logits.insert(logits.end(), restored.begin(), restored.end());
    return logits;
  };
  f.expect_equal("a decode over a cleared block, then over its copy", run(f.reference()),
                 run(f.session()));
}

void chained_block_ops(StepFixture& f) {
  const uint32_t b = f.block_size(), last = 2 * b;
  const Tokens tokens = f.tokens("chain", last + 1);
  f.session().logits(slice(tokens, 0, last), 0, {1, 2});
  TransformerSession::Extras extras;  // in order: 1 goes to 11 by way of 10, and 2 takes its place
  extras.block_ops = {copy(1, 10), copy(10, 11), copy(2, 10), clear(1), clear(2)};
  const std::vector<SequenceStep> step = {{{tokens[last]}, last, {11, 10, 12}}};
  f.expect("a decode after copies of copies", tokens, last, f.session().step(step, extras).front());
}

void resumes_in_other_blocks(StepFixture& f) {
  const uint32_t b = f.block_size(), n = b + 5;
  const Tokens tokens = f.tokens("preempted", n + 4), other = f.tokens("intruder", 3 * b);
  f.session().logits(slice(tokens, 0, n), 0, f.blocks(1, tokens.size()));
  f.session().logits({tokens[n]}, n, f.blocks(1, tokens.size()));
  f.session().logits(other, 0, f.blocks(1, other.size()));
  const Blocks blocks = f.blocks(50, tokens.size(), -2);
  f.expect("a preempted sequence, computed again in other blocks", tokens, 0,
           f.session().logits(slice(tokens, 0, n + 1), 0, blocks));
  for (uint32_t at = n + 1; at < n + 4; ++at) {
    f.expect("a decode of the resumed sequence", tokens, at,
             f.session().logits({tokens[at]}, at, blocks));
  }
}

// Blocks that no position looks at any more may be handed back.
void windows_need_no_old_blocks(StepFixture& f) {
  const uint32_t b = f.block_size();
  const auto last = 3 * b + 26;
  const Tokens tokens = f.tokens("window", last + 1);
  const Blocks blocks = f.blocks(1, tokens.size());
  f.session().logits(slice(tokens, 0, last), 0, blocks);
  TransformerSession::Extras extras;
  extras.null_in_window = {blocks.begin(), blocks.begin() + (last - 23) / b};
  const std::vector<SequenceStep> step = {{{tokens[last]}, last, blocks}};
  f.expect("a decode with null blocks before its window", tokens, last,
           f.session().step(step, extras).front());
}

Test both_layouts(const char* name, const char* description, void (*run)(StepFixture&)) {
  return {name, "steps", description, [run](Subject& s) { for_both_layouts(s, run); }};
}

}  // namespace

void add_block_steps_tests(Tests& tests) {
  const Test listed[] = {
      both_layouts("steps-scattered-blocks", "the ids of a sequence's blocks do not matter",
                   blocks_lie_anywhere),
      both_layouts("steps-shared-prefix", "two sequences read one prefix in the same blocks",
                   prefixes_are_shared),
      both_layouts("steps-padded-tables", "entries past a sequence's context do not matter",
                   tables_have_padding),
      both_layouts("steps-stale-blocks",
                   "what earlier sequences left in a block does not matter, NaN included",
                   stale_content_does_not_matter),
      both_layouts("steps-nan-beside",
                   "a NaN changes its own sequence from its token on, and nothing else",
                   nan_stays_in_its_sequence),
      both_layouts("steps-copied-block", "a copied block continues like its source, apart from it",
                   copies_on_write),
      both_layouts("steps-cleared-block", "a cleared block is zeros, before any token is computed",
                   clears_before_the_step),
      both_layouts("steps-chained-block-ops", "block ops are done in order", chained_block_ops),
      both_layouts("steps-preempted", "a sequence computed again in other blocks goes on as before",
                   resumes_in_other_blocks),
      {"steps-window-blocks", "steps", "blocks before a window may be the null block",
       [](Subject& subject) { for_windows(subject, windows_need_no_old_blocks); }},
  };
  tests.insert(tests.end(), std::begin(listed), std::end(listed));
}

}  // namespace bp::conformance
