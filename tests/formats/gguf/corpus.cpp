#include "corpus.hpp"

#include <cstdint>

#include "tests/support/gguf_builder.hpp"

namespace bp::gguf {

namespace {

using bp::test::GgufBuilder;
using bp::test::GgufBytes;

GgufBuilder all_value_types() {
  return GgufBuilder()
      .set("u8", uint8_t{1})
      .set("i8", int8_t{-1})
      .set("u16", uint16_t{2})
      .set("i16", int16_t{-2})
      .set("u32", uint32_t{3})
      .set("i32", int32_t{-3})
      .set("f32", 0.5f)
      .set("bool", true)
      .set("string", std::string("text"))
      .set("u64", uint64_t{4})
      .set("i64", int64_t{-4})
      .set("f64", 0.25)
      .set_array<uint8_t>("bytes", {1, 2, 3})
      .set_array<float>("floats", {1, 2})
      .set_array<bool>("bools", {true, false})
      .set_array<std::string>("strings", {"a", "", "\xe2\x82"});
}

GgufBuilder small_model() {
  return GgufBuilder()
      .set("general.architecture", std::string("llama"))
      .set("general.alignment", uint32_t{64})
      .alignment(64)
      .f32_tensor("output_norm.weight", {4}, {1, 2, 3, 4})
      .tensor({"token_embd.weight", {2, 32}, 8, std::string(68, 'q')})
      .tensor({"blk.0.attn_q.weight", {1, 256}, 12, std::string(144, 'k')})
      .tensor({"scalar", {}, 30, "bf"});
}

GgufBuilder value(const GgufBytes& bytes) {
  return GgufBuilder().set_raw("k", bytes);
}

GgufBytes array(uint32_t type, uint64_t n) {
  return GgufBytes().put<uint32_t>(9).put(type).put(n);
}

std::vector<Seed> valid_seeds() {
  return {
      {"empty-v2", GgufBuilder().version(2).bytes(), true},
      {"empty-v3", GgufBuilder().bytes(), true},
      {"all-value-types", all_value_types().bytes(), true},
      {"small-model", small_model().bytes(), true},
      {"split-part",
       small_model().set("split.no", uint16_t{0}).set("split.count", uint16_t{2}).bytes(), true},
      {"alignment-1",
       GgufBuilder()
           .set("general.alignment", uint32_t{1})
           .alignment(1)
           .f32_tensor("t", {1}, {1})
           .bytes(),
       true},
  };
}

std::vector<Seed> mean_seeds() {
  const uint64_t huge = UINT64_MAX;
  return {
      {"big-endian", GgufBuilder().version(0x03000000).bytes(), false},
      {"counts-huge", GgufBuilder().n_kv(huge).n_tensors(huge).bytes(), false},
      {"array-count-overflows", value(array(10, uint64_t{1} << 61)).bytes(), false},
      {"array-of-arrays", value(array(9, 1).put<uint32_t>(9)).bytes(), false},
      {"string-length-huge", value(GgufBytes().put<uint32_t>(8).put(huge)).bytes(), false},
      {"string-array-short", value(array(8, 1).put<uint64_t>(9)).bytes(), false},
      {"bool-2", value(GgufBytes().put<uint32_t>(7).put<uint8_t>(2)).bytes(), false},
      {"key-not-utf8", GgufBuilder().set("\xed\xa0\x80", true).bytes(), false},
      {"key-twice", GgufBuilder().set("k", true).set("k", true).bytes(), false},
      {"alignment-0", GgufBuilder().set("general.alignment", uint32_t{0}).bytes(), false},
      {"alignment-string", GgufBuilder().set("general.alignment", std::string("32")).bytes(),
       false},
      {"alignment-empty-array", GgufBuilder().set_array<uint32_t>("general.alignment", {}).bytes(),
       false},
      {"dims-product-overflows",
       GgufBuilder().tensor({"t", {huge >> 24, huge >> 24}, 0, ""}).bytes(), false},
      {"dims-zero", GgufBuilder().tensor({"t", {0}, 0, ""}).bytes(), false},
      {"dims-five", GgufBuilder().tensor({"t", {1, 1, 1, 1, 1}, 0, "1234"}).bytes(), false},
      {"offset-wraps", GgufBuilder().tensor({"t", {8}, 0, std::string(32, 'x'), huge - 31}).bytes(),
       false},
      {"overlap",
       GgufBuilder()
           .tensor({"a", {16}, 0, std::string(64, 'x'), 0})
           .tensor({"b", {8}, 0, "", 32})
           .bytes(),
       false},
      {"removed-type", GgufBuilder().tensor({"t", {32}, 31, std::string(64, 'x')}).bytes(), false},
      {"type-number-huge", GgufBuilder().tensor({"t", {32}, 0xffffffff, "x"}).bytes(), false},
  };
}

}  // namespace

std::vector<Seed> make_seeds() {
  std::vector<Seed> seeds = valid_seeds();
  for (Seed& seed : mean_seeds()) seeds.push_back(std::move(seed));
  return seeds;
}

}  // namespace bp::gguf
