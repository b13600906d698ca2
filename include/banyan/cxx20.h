/* Defines BANYAN_CXX20 if the compiler speaks C++20. Every header of the C++ interface includes this one first, and
 * is empty without it, so that the error below is the only one. */
#pragma once

#if defined(__cplusplus) && __cplusplus > 201703L
#define BANYAN_CXX20
#else
#error "Banyan's C++ interface wants C++20: compile with -std=c++20 (banyan/banyan.h serves C and C++11, too)"
#endif
