/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that the seeds of fuzz_sealed.corpus are for; made once, and used nowhere else. */
#ifndef SCRY_TEST_FUZZ_SEALED_H
#define SCRY_TEST_FUZZ_SEALED_H

#include <stdint.h>

enum { FUZZ_NOW = 1795000000 };

static const char fuzz_key[] = "-----BEGIN CERTIFICATE-----\n"
                               "MIIBWTCCAQugAwIBAgIQXO0Ee77yhyaUudex2bwYlTAFBgMrZXAwDjEMMAoGA1UE\n"
                               "AwwDYWRhMB4XDTI2MTExNzExMDY0MFoXDTQ2MTExMzExMDY0MFowDjEMMAoGA1UE\n"
                               "AwwDam9iMCowBQYDK2VwAyEA+gQVVtlXpEAzET/EJIWi3PPhGGgQXPsl0qJsMBJC\n"
                               "d0ijfzB9MAwGA1UdEwEB/wQCMAAwDgYDVR0PAQH/BAQDAgeAMB0GA1UdDgQWBBQq\n"
                               "KAA/cKFGLUgMfK23J8Ax6V8HhjAfBgNVHSMEGDAWgBStxlJC5K2YaFLv9weHe9oi\n"
                               "Hquk/zAdBgNVHREEFjAUhhJzY3J5OmpvYj9qb2I9am9iLSowBQYDK2VwA0EAzLXx\n"
                               "SjoXRakzA6X3CkmKIytbcEyK7aWcum/+e+DaUonhIKVJxkhtE6V+BIY/xBMCuzKk\n"
                               "6pgltDGgecd2szijBg==\n"
                               "-----END CERTIFICATE-----\n"
                               "-----BEGIN PRIVATE KEY-----\n"
                               "MC4CAQAwBQYDK2VwBCIEIHTY6DsTcSiWo+n/QY4UP+EiFt3qLD79bb6Y2tVclWpv\n"
                               "-----END PRIVATE KEY-----\n"
                               "-----BEGIN CERTIFICATE-----\n"
                               "MIIBPzCB8qADAgECAhBQeYP3xkIhBH39RCgkcd+QMAUGAytlcDAOMQwwCgYDVQQD\n"
                               "DANhZGEwHhcNMjYxMTE3MTEwNjQwWhcNNDYxMTEzMTEwNjQwWjAOMQwwCgYDVQQD\n"
                               "DANhZGEwKjAFBgMrZXADIQBRarCi7al7EwvHDWcWtN4CXxFg1FduDlbY+c8GIQPh\n"
                               "OaNmMGQwEgYDVR0TAQH/BAgwBgEB/wIBADAOBgNVHQ8BAf8EBAMCAQYwHQYDVR0O\n"
                               "BBYEFK3GUkLkrZhoUu/3B4d72iIeq6T/MB8GA1UdIwQYMBaAFK3GUkLkrZhoUu/3\n"
                               "B4d72iIeq6T/MAUGAytlcANBABoCJ9LfKLFn2GzGHBctwhaL7533xDSLW4m96jUf\n"
                               "gzOuOQHyHR4SNCDO5f45730udb0VHlAvny4Qb+sEGfzmSwg=\n"
                               "-----END CERTIFICATE-----\n"
                               "";

static const uint8_t fuzz_exchange[32] = {27,  0,   112, 251, 153, 235, 104, 83,  142, 175, 66,
                                          169, 4,   126, 3,   106, 142, 246, 247, 14,  247, 95,
                                          199, 126, 185, 38,  187, 184, 22,  189, 169, 166};

#endif
