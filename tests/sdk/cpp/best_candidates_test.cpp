// The best of a row are those that come first when all of it is put in order.

#include "backplane/best_candidates.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace bp {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

std::vector<int32_t> ids(std::vector<bp_candidate> candidates, size_t k) {
  std::ranges::sort(candidates, is_better);
  std::vector<int32_t> first;
  for (size_t i = 0; i < std::min(k, candidates.size()); ++i) first.push_back(candidates[i].id);
  return first;
}

void expect_best(const std::vector<float>& row) {
  std::vector<bp_candidate> all;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > kForbidden) all.push_back({static_cast<int32_t>(i), row[i]});
  }
  for (const size_t k : {size_t{0}, size_t{1}, size_t{2}, size_t{40}, size_t{200}, row.size()}) {
    std::vector<bp_candidate> room(best_candidates_room(row.size(), k) + 1, {-7, 0});
    room.resize(best_candidates(row, k, room));
    EXPECT_EQ(ids(room, k), ids(all, k)) << row.size() << " logits, the best " << k;
  }
}

TEST(BestCandidates, AreThoseOfTheWholeOrder) {
  for (const uint32_t n : {1u, 63u, 64u, 257u, 5000u}) {
    std::mt19937 random(n);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> row(n);
    for (float& x : row) x = normal(random);
    expect_best(row);
    for (float& x : row) x = random() % 3 == 0 ? kForbidden : x;
    expect_best(row);
    for (float& x : row) x = std::round(x);  // ties
    expect_best(row);
    std::ranges::sort(row);
    expect_best(row);
    expect_best(std::vector<float>(n, 1));
    expect_best(std::vector<float>(n, kForbidden));
    expect_best(std::vector<float>(n, std::numeric_limits<float>::max()));
  }
}

}  // namespace
}  // namespace bp
