// Ops with state: the same bits however tokens are divided into steps, sequences into batches and
// columns among workers.

#include <gtest/gtest.h>

#include "sdk/conformance/support/recurrent_session.hpp"
#include "tests/backends/cpu/isa_backends.hpp"

namespace bp::test {
namespace {

using conformance::RecurrentSession;
using Rows = RecurrentSession::Rows;
using Tokens = std::vector<int32_t>;

Tokens some_tokens(uint32_t seed, uint32_t n) {
  Tokens tokens;
  for (uint32_t i = 0; i < n; ++i) {
    tokens.push_back(static_cast<int32_t>((i * i * 7 + seed * 13 + i) % RecurrentSession::kVocab));
  }
  return tokens;
}

// The rows of all tokens, run in steps of `chunk` in entry 2, beside `n_others` sequences.
Rows run(RecurrentSession& session, const Tokens& tokens, uint32_t chunk, int32_t n_others) {
  Rows all;
  for (uint32_t at = 0; at < tokens.size(); at += chunk) {
    const auto begin = tokens.begin() + at;
    const auto end = begin + std::min<std::ptrdiff_t>(chunk, tokens.end() - begin);
    std::vector<conformance::RecurrentPiece> pieces;
    for (int32_t other = 0; other < n_others; ++other) {
      pieces.push_back({some_tokens(9, 3 + static_cast<uint32_t>(other)), 0, 0, 5 + other});
    }
    pieces.insert(pieces.begin() + n_others / 2, {{begin, end}, at, at == 0 ? 0 : 2, 2});
    const Rows rows = session.step(pieces)[static_cast<size_t>(n_others / 2)];
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST(Recurrent, StepsAndNeighboursChangeNoBit) {
  const Tokens tokens = some_tokens(1, 75);
  for (const NamedFactory& backend : cpu_factories()) {
    SCOPED_TRACE(backend.name);
    RecurrentSession session(*backend.factory, nullptr);
    const Rows whole = run(session, tokens, 75, 0);
    for (const uint32_t chunk : {1u, 2u, 3u, 16u, 74u}) {
      EXPECT_EQ(run(session, tokens, chunk, 0), whole) << chunk;
      EXPECT_EQ(run(session, tokens, chunk, 4), whole) << chunk;
    }
  }
}

TEST(Recurrent, WorkersChangeNoBit) {
  const Tokens tokens = some_tokens(2, 40);
  const NamedFactory backend = cpu_factories().front();
  RecurrentSession one(*backend.factory, nullptr, 1), three(*backend.factory, nullptr, 3);
  EXPECT_EQ(run(three, tokens, 11, 3), run(one, tokens, 11, 3));
}

}  // namespace
}  // namespace bp::test
