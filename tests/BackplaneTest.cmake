# backplane_add_test(NAME SOURCES ... [LIBRARIES ...] [LABELS ...] [TIMEOUT seconds] [COST seconds])
# One GoogleTest executable; each of its tests is a CTest test. Tests find the source tree and the
# build tree in the environment variables BACKPLANE_SOURCE_DIR and BACKPLANE_BUILD_DIR, which the
# common main function sets.
include(GoogleTest)
find_package(GTest REQUIRED)

add_library(bp_test_main STATIC ${CMAKE_CURRENT_LIST_DIR}/support/test_main.cpp)
target_compile_definitions(bp_test_main PRIVATE SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                           BUILD_DIR="${CMAKE_BINARY_DIR}")
target_link_libraries(bp_test_main PUBLIC GTest::gmock GTest::gtest)

function(backplane_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;COST" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 1)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE bp_flags ${ARG_LIBRARIES} bp_test_main)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}."
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} LABELS "${ARG_LABELS}")
  if("threads" IN_LIST ARG_LABELS)
    set_property(GLOBAL APPEND PROPERTY BACKPLANE_THREADS_TESTS ${name})
  endif()
endfunction()
