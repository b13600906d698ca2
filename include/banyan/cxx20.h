/* Whether the compiler speaks C++20. Every header of the C++ interface includes this one first, and holds nothing where
 * it does not: what is said here is then all that is said of them. */
#pragma once

#if defined(__cplusplus) && __cplusplus > 201703L
#define BANYAN_CXX20
#else
#error "Banyan's C++ interface wants C++20: compile with -std=c++20 (banyan/banyan.h serves C and C++11, too)"
#endif
