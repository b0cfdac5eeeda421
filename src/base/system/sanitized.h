/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this is compiled with AddressSanitizer, for what cannot be as usual then: it maps terabytes for itself, and its
 * code is larger. Gcc defines a macro, clang 14 only has a feature.
 */
#ifndef SCRY_BASE_SYSTEM_SANITIZED_H
#define SCRY_BASE_SYSTEM_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
