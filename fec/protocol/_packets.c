/* Seals of many packets in one call, and the module's list of functions; ``receive`` is in _receiver.c.
 *
 * fec/protocol/framing.py says what a seal is, and fec/protocol/row_seals.py gives the same bytes without this module:
 * four bytes of keyed BLAKE2b (RFC 7693), or without a key the CRC32 of RFC 1952, over the packet with the four bytes
 * of the seal taken as zero.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* LANES packets are hashed side by side, so that the compiler can use vector instructions. The processor chooses among
 * the versions of such a function when the module is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

enum { LANES = 8, BLOCK_BYTES = 128, ROUNDS = 12, SEAL_BYTES = 4, MAX_KEY_BYTES = 64 };

typedef uint64_t lanes[LANES];

/* RFC 7693, sections 2.6 and 2.7. */
static const uint64_t IV[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};
static const uint8_t SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

#define IN_EACH_LANE for (int j = 0; j < LANES; j++)
#define ADD(a, b) IN_EACH_LANE a[j] += b[j]
#define XOR_AND_ROTATE(a, b, bits) \
    IN_EACH_LANE a[j] = (a[j] ^ b[j]) >> (bits) | (a[j] ^ b[j]) << (64 - (bits))
#define MIX(a, b, c, d, x, y)      \
    do {                           \
        ADD(a, b);                 \
        ADD(a, x);                 \
        XOR_AND_ROTATE(d, a, 32);  \
        ADD(c, d);                 \
        XOR_AND_ROTATE(b, c, 24);  \
        ADD(a, b);                 \
        ADD(a, y);                 \
        XOR_AND_ROTATE(d, a, 16);  \
        ADD(c, d);                 \
        XOR_AND_ROTATE(b, c, 63);  \
    } while (0)

/* The function F of RFC 7693, section 3.2. The words of a message are little-endian: see the test in PyInit__packets. */
FOR_EVERY_PROCESSOR
static void compress(lanes state[8], const uint8_t *const blocks[LANES], const lanes counted, const lanes last)
{
    lanes m[16];
    lanes v[16];
    for (int i = 0; i < 16; i++)
        IN_EACH_LANE memcpy(&m[i][j], blocks[j] + 8 * i, 8);
    for (int i = 0; i < 8; i++)
        IN_EACH_LANE {
            v[i][j] = state[i][j];
            v[i + 8][j] = IV[i];
        }
    IN_EACH_LANE {
        v[12][j] ^= counted[j];
        v[14][j] ^= last[j];
    }
    for (int i = 0; i < ROUNDS; i++) {
        const uint8_t *s = SIGMA[i % 10];
        MIX(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
        MIX(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
        MIX(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
        MIX(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
        MIX(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
        MIX(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
        MIX(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
        MIX(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++)
        IN_EACH_LANE state[i][j] ^= v[i][j] ^ v[i + 8][j];
}

/* The state after the block of the key: where the hash of every packet begins. */
static void begin(lanes state[8], const uint8_t *key, Py_ssize_t key_bytes)
{
    uint8_t padded[BLOCK_BYTES] = {0};
    const uint8_t *blocks[LANES];
    lanes counted;
    const lanes last = {0};
    memcpy(padded, key, (size_t)key_bytes);
    for (int i = 0; i < 8; i++)
        IN_EACH_LANE state[i][j] = IV[i];
    IN_EACH_LANE {
        state[0][j] ^= 0x01010000 ^ (uint64_t)key_bytes << 8 ^ SEAL_BYTES;
        blocks[j] = padded;
        counted[j] = BLOCK_BYTES;
    }
    compress(state, blocks, counted, last);
}

/* Seals of LANES packets, each of at least one byte. A lane goes on after its last block, and its state is not used. */
static void hash_lanes(lanes state[8], const uint8_t *const packets[LANES], const int64_t lengths[LANES], int64_t at,
                       uint8_t *seals)
{
    int64_t longest = 0;
    IN_EACH_LANE longest = lengths[j] > longest ? lengths[j] : longest;
    for (int64_t done = 0; done < longest; done += BLOCK_BYTES) {
        uint8_t copies[LANES][BLOCK_BYTES];
        const uint8_t *blocks[LANES];
        lanes counted;
        lanes last;
        IN_EACH_LANE {
            int64_t left = lengths[j] - done;
            int has_seal = done <= at && at < done + BLOCK_BYTES;
            last[j] = left <= BLOCK_BYTES ? UINT64_MAX : 0;
            counted[j] = (uint64_t)(BLOCK_BYTES + (last[j] ? lengths[j] : done + BLOCK_BYTES));
            blocks[j] = packets[j] + done;
            if (left < BLOCK_BYTES || has_seal) {
                int64_t part = left < 0 ? 0 : left < BLOCK_BYTES ? left : BLOCK_BYTES;
                memset(copies[j] + part, 0, (size_t)(BLOCK_BYTES - part));
                if (part)
                    memcpy(copies[j], packets[j] + done, (size_t)part);
                if (has_seal)
                    memset(copies[j] + (at - done), 0, SEAL_BYTES);
                blocks[j] = copies[j];
            }
        }
        compress(state, blocks, counted, last);
        IN_EACH_LANE if (last[j] && lengths[j] > done) memcpy(seals + SEAL_BYTES * j, &state[0][j], SEAL_BYTES);
    }
}

static uint32_t crc_tables[8][256];

static void make_crc_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        crc_tables[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            crc_tables[k][i] = crc_tables[k - 1][i] >> 8 ^ crc_tables[0][crc_tables[k - 1][i] & 255];
}

/* Eight bytes at a time; the tables say what each byte of eight makes of the CRC. */
static uint32_t crc32_of(uint32_t crc, const uint8_t *data, int64_t length)
{
    crc = ~crc;
    for (; length >= 8; length -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= crc_tables[7 - k][word >> 8 * k & 255];
    }
    for (; length > 0; length--, data++)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *data) & 255];
    return ~crc;
}

static void check_packet(const uint8_t *packet, int64_t length, int64_t at, uint8_t *seal)
{
    static const uint8_t no_seal[SEAL_BYTES];
    uint32_t crc = crc32_of(0, packet, at);
    crc = crc32_of(crc, no_seal, SEAL_BYTES);
    crc = crc32_of(crc, packet + at + SEAL_BYTES, length - at - SEAL_BYTES);
    for (int k = 0; k < SEAL_BYTES; k++)
        seal[k] = (uint8_t)(crc >> 8 * (SEAL_BYTES - 1 - k));
}

/* An array of numpy's may be longer than a row for each length, and must not be shorter. */
static int fits(const Py_buffer *rows, Py_ssize_t row_bytes, Py_ssize_t front, const Py_buffer *lengths, Py_ssize_t at)
{
    const int64_t *length = lengths->buf;
    Py_ssize_t count = lengths->len / 8;
    if (lengths->len % 8 || front < 0 || at < 0 || at > BLOCK_BYTES - SEAL_BYTES || at % SEAL_BYTES ||
        row_bytes < front || (count && row_bytes > rows->len / count))
        return 0;
    for (Py_ssize_t k = 0; k < count; k++)
        if (length[k] < at + SEAL_BYTES || length[k] > row_bytes - front)
            return 0;
    return 1;
}

static PyObject *seals(PyObject *module, PyObject *arguments)
{
    Py_buffer rows;
    Py_buffer lengths;
    Py_buffer key;
    Py_ssize_t row_bytes;
    Py_ssize_t front;
    Py_ssize_t at;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*nny*ny*", &rows, &row_bytes, &front, &lengths, &at, &key))
        return NULL;
    if (key.len > MAX_KEY_BYTES || !fits(&rows, row_bytes, front, &lengths, at)) {
        PyErr_SetString(PyExc_ValueError, "rows, lengths and place of the seal do not fit each other");
        goto done;
    }
    Py_ssize_t count = lengths.len / 8;
    result = PyBytes_FromStringAndSize(NULL, SEAL_BYTES * count);
    if (result == NULL)
        goto done;
    uint8_t *out = (uint8_t *)PyBytes_AS_STRING(result);
    const uint8_t *packets = (const uint8_t *)rows.buf + front;
    const int64_t *length = lengths.buf;
    if (key.len == 0) {
        for (Py_ssize_t k = 0; k < count; k++)
            check_packet(packets + k * row_bytes, length[k], at, out + SEAL_BYTES * k);
        goto done;
    }
    lanes keyed[8];
    begin(keyed, key.buf, key.len);
    for (Py_ssize_t k = 0; k < count; k += LANES) {
        lanes state[8];
        const uint8_t *some[LANES];
        int64_t some_lengths[LANES];
        uint8_t some_seals[SEAL_BYTES * LANES];
        Py_ssize_t left = count - k < LANES ? count - k : LANES;
        IN_EACH_LANE {
            Py_ssize_t row = j < left ? k + j : k; /* the first one again, where there are not so many */
            some[j] = packets + row * row_bytes;
            some_lengths[j] = length[row];
        }
        memcpy(state, keyed, sizeof state);
        hash_lanes(state, some, some_lengths, at, some_seals);
        memcpy(out + SEAL_BYTES * k, some_seals, (size_t)(SEAL_BYTES * left));
    }
done:
    PyBuffer_Release(&rows);
    PyBuffer_Release(&lengths);
    PyBuffer_Release(&key);
    return result;
}

PyObject *receive(PyObject *module, PyObject *arguments);

static PyMethodDef methods[] = {
    {"receive", receive, METH_VARARGS,
     "receive(*tables): 0 if all packets of a batch are received, else why Python has to act."},
    {"seals", seals, METH_VARARGS,
     "seals(rows, row_bytes, front, lengths, at, key): the seal of each packet, one after the other.\n\n"
     "A packet lies behind `front` bytes of its row and has its seal at `at`; without a key it is the CRC32."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_packets", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__packets(void)
{
    const uint16_t one = 1;
    if (*(const uint8_t *)&one != 1) {
        PyErr_SetString(PyExc_ImportError, "words are little-endian here");
        return NULL;
    }
    make_crc_tables();
    return PyModule_Create(&definition);
}
