#pragma once
// Tiny models of each family, whose tensors are made again from their names, with logits of
// transformers: tests/data/architectures/FAMILY.json.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tests/core/model/support/fake_model.hpp"

namespace bp::model::test {

std::vector<std::string> all_families();
nlohmann::json family_golden(const std::string& family);
// The metadata and the tensors of one form of a golden.
void fill_family(FakeModel& model, const nlohmann::json& metadata, const nlohmann::json& form);
// The metadata, and tensors [[name, shape], ...] of zeros.
void fill_shapes(FakeModel& model, const nlohmann::json& metadata, const nlohmann::json& tensors);
// The name of a test of a family.
std::string family_case_name(const ::testing::TestParamInfo<std::string>& info);

}  // namespace bp::model::test
