/* What a receiver does with every ordinary packet of a batch, on tables that it shares with Python.
 *
 * ``receive`` does what ``StreamReceiver.receive`` does with a packet that is sealed, of the stream's clock, and of a
 * block that is open or the next one to begin. Before any other packet it returns, and Python receives that packet.
 * The functions have the names of what they do in fec/protocol/receiver.py, open_blocks.py, probation.py and
 * path_counts.py; tests/fec/protocol/compiled holds them against those.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    HEADER_BYTES = 28,
    DATA = 0x31,
    PARITY = 0x32,
    MAX_SYMBOL_ID = 254,
    ORDER = 255,
    BLOCK_NUMBERS = 1 << 24,
    FARTHEST_AHEAD = 4096,
    SLOTS = 4 * FARTHEST_AHEAD,
    PLACES = 2 * FARTHEST_AHEAD + 1,
    MOST = 512,
    PATHS = 256,
    ODD = 3,
};
#define STAMPS ((int64_t)1 << 32)
#define S_PER_US 1e-6
#define CLOCK_WINDOW_S 30.0
#define STEP (1.0 / 16)
#define EARLY_PERIODS 2.5
#define RATE_SLACK 0.1

/* Why ``receive`` returns: all is received; before a packet for Python; behind one with which a block is to be decoded
 * by Python. */
enum { DONE, OTHER, DECODABLE };

/* The records of fec/protocol/compiled/tables.py. */
typedef struct {
    double newest_at_s, alive_s, window_s, offset_s, least_s, usual_s, closing_s, worst_reordering_s;
    double playback_s, quicker_s, latest_s, alarm_s;
    int64_t duplicate, reordered, unused_parity, unused_sources, decoded_blocks, recovered;
    int64_t highest, oldest, stop, touched, in_time, urgent, decodable, free, accepted, delivered;
    int64_t known, newest_us, session, waiting, next, count, noted, logged, restored;
    int64_t m, half, symbol_bytes, flags, stream_id, prepare_at, multiply_at;
} Receiver;
typedef struct {
    int64_t number, start_us, size, arrived, top, complete, spoilt, place;
} Block;
typedef struct {
    int64_t first, highest, arrived;
} Path;
typedef struct {
    double first_block, first_us, last_block, last_us, period_us, odd_ones;
} Schedule;
typedef struct {
    int64_t what, start, stop, recovered, packet;
} Note;

typedef struct {
    Receiver *r;
    Block *blocks;
    uint64_t (*bits)[4];
    uint8_t *symbols, *bodies, *rows, *good, *coefficients, *multipliers;
    int64_t *free_places, *lengths;
    Path *paths;
    Schedule *schedule;
    double *times, (*log)[3];
    Note *notes;
    const uint8_t *powers;
    const int64_t *logarithms;
    int64_t row_bytes;
} Tables;

typedef void (*Prepare)(int known, int required, const uint8_t *coefficients, uint8_t *multipliers);
typedef void (*Multiply)(int length, int known, int required, const uint8_t *multipliers, uint8_t **in, uint8_t **out);

static int64_t get(const uint8_t *at, int count)
{
    int64_t value = 0;
    for (int j = 0; j < count; j++)
        value = value << 8 | at[j];
    return value;
}

/* The number congruent to ``number`` that is nearest to ``reference``. */
static int64_t nearest(int64_t number, int64_t reference, int64_t modulus)
{
    return reference + ((number - reference + modulus / 2) & (modulus - 1)) - modulus / 2;
}

static Block *block_of(const Tables *t, int64_t number)
{
    return &t->blocks[number & (SLOTS - 1)];
}

static int has_arrived(const Tables *t, int64_t number, int64_t symbol)
{
    return t->bits[number & (SLOTS - 1)][symbol >> 6] >> (symbol & 63) & 1;
}

static int is_packet(const Tables *t, int64_t k)
{
    const Receiver *r = t->r;
    const uint8_t *row = t->rows + k * t->row_bytes;
    if (t->lengths[k] != HEADER_BYTES + r->symbol_bytes || !t->good[k])
        return 0;
    int64_t symbol = row[7];
    return row[1] == r->flags && get(row + 2, 2) == r->stream_id && get(row + 12, 2) == r->m && symbol <= MAX_SYMBOL_ID &&
           row[14] >= r->m && get(row + 18, 2) == r->symbol_bytes && row[0] == (symbol >= r->m ? PARITY : DATA);
}

static double earliest_us(const Schedule *s, int64_t block)
{
    if (s->period_us < 0)
        return -INFINITY;
    double ahead = block - s->last_block;
    double blocks = s->last_block - s->first_block;
    double period_us = s->period_us;
    if (ahead > 0)
        period_us = period_us * blocks / (blocks + 1);
    return s->last_us + period_us * (ahead - fabs(ahead) * RATE_SLACK - EARLY_PERIODS);
}

static void half_arrived(Schedule *s, int64_t block, int64_t stamp_us)
{
    if (s->first_block < 0) {
        s->first_block = s->last_block = (double)block;
        s->first_us = s->last_us = (double)stamp_us;
    } else if (block > s->last_block) {
        int odd = 0;
        if (s->period_us >= 0) {
            double usual_us = s->last_us + s->period_us * (block - s->last_block);
            odd = fabs(stamp_us - usual_us) > usual_us - earliest_us(s, block);
        }
        s->odd_ones = odd ? s->odd_ones + 1 : 0;
        if (!(0 < s->odd_ones && s->odd_ones < ODD)) {
            s->last_block = (double)block;
            s->last_us = (double)stamp_us;
            s->period_us = fmax(0.0, (stamp_us - s->first_us) / (block - s->first_block));
        }
    }
}

static void count(Path *path, int64_t number)
{
    const int64_t numbers = 1 << 16;
    if (!path->arrived)
        path->first = path->highest = number;
    path->arrived++;
    int64_t ahead = (number - path->highest) & (numbers - 1);
    if (ahead < numbers / 2)
        path->highest += ahead;
    else if (path->highest + ahead - numbers < path->first)
        path->first = path->highest + ahead - numbers;
}

static void plan_closing(const Tables *t)
{
    Receiver *r = t->r;
    r->closing_s = INFINITY;
    if (r->oldest < r->stop)
        r->closing_s = block_of(t, r->oldest)->start_us * S_PER_US + r->offset_s + r->playback_s;
}

static void began(const Tables *t, int64_t number, int64_t sent_us)
{
    const Receiver *r = t->r;
    for (; r->oldest <= number && number < r->stop && block_of(t, number)->start_us > sent_us; number--)
        block_of(t, number)->start_us = sent_us;
    plan_closing(t);
}

/* Close the blocks that are over; false if one is for Python: not complete, or spoilt. */
static int close_complete(const Tables *t, double now_s)
{
    Receiver *r = t->r;
    while (r->closing_s <= now_s) {
        const Block *b = block_of(t, r->oldest);
        if (!b->complete || b->spoilt)
            return 0;
        r->oldest++;
        plan_closing(t);
    }
    return 1;
}

/* Whether a block that is not open is the next one, and begins as usual. */
static int may_begin(const Tables *t, int64_t number, int64_t sent_us, double now_s)
{
    const Receiver *r = t->r;
    int is_next = number == r->highest + 1 && number == r->stop && r->oldest < r->stop &&
                  r->stop < r->oldest + 2 * FARTHEST_AHEAD;
    return is_next && now_s >= r->newest_at_s - r->quicker_s && t->schedule->period_us >= 0 &&
           sent_us >= earliest_us(t->schedule, number);
}

static void begin(const Tables *t, int64_t number, int64_t sent_us, double now_s)
{
    Receiver *r = t->r;
    *block_of(t, number) = (Block){.number = number, .start_us = sent_us, .size = r->m, .place = -1};
    memset(t->bits[number & (SLOTS - 1)], 0, sizeof *t->bits);
    r->highest = number;
    r->stop = number + 1;
    r->touched = number < r->touched ? number : r->touched;
    began(t, number - 1, sent_us);
    if (number - 2 >= r->oldest && !block_of(t, number - 2)->complete) {
        r->urgent = 1;
        r->alarm_s = now_s;
    }
}

static void keep_time(const Tables *t, int64_t sent_us, double transit_s, double now_s)
{
    Receiver *r = t->r;
    /* As in StreamReceiver.receive: a forged time stamp may be ahead by quicker_s. */
    if (sent_us >= r->newest_us - (int64_t)(r->quicker_s * 1e6))
        r->alive_s = now_s;
    if (sent_us >= r->newest_us) {
        r->newest_us = sent_us;
        r->newest_at_s = now_s;
    } else {
        r->reordered++;
        r->worst_reordering_s = fmax(r->worst_reordering_s, (r->newest_us - sent_us) * S_PER_US);
    }
    r->least_s = fmin(r->least_s, transit_s);
    if (!(0 <= now_s - r->window_s && now_s - r->window_s < CLOCK_WINDOW_S)) {
        r->offset_s = r->least_s;
        r->least_s = transit_s;
        r->window_s = now_s;
        plan_closing(t);
    }
}

static void tell(const Tables *t, int64_t what, int64_t start, int64_t stop, int64_t recovered, int64_t k)
{
    t->notes[t->r->noted++] = (Note){what, start, stop, recovered, k};
}

/* A source packet, in a row; ``place``: of that row among those that are used. */
static void deliver(const Tables *t, int64_t source, int64_t row, int64_t place, int64_t recovered, int64_t k)
{
    int64_t at = place * t->row_bytes + HEADER_BYTES + 2;
    t->r->delivered++;
    tell(t, source, at, at + get(t->rows + row * t->row_bytes + HEADER_BYTES, 2), recovered, k);
}

/* ``interpolation_rows`` of fec/engines/galois_field.py for the missing source packets. */
static void interpolate(const Tables *t, const uint8_t *known, const int64_t *missing, int64_t count)
{
    int64_t m = t->r->m;
    int64_t sums[2 * ORDER];
    for (int64_t e = 0; e < m + count; e++) {
        uint8_t point = t->powers[e < m ? known[e] : missing[e - m]];
        sums[e] = 0;
        for (int64_t c = 0; c < m; c++)
            sums[e] += t->logarithms[point ^ t->powers[known[c]]];
    }
    for (int64_t w = 0; w < count; w++)
        for (int64_t c = 0; c < m; c++) {
            int64_t apart = t->logarithms[t->powers[missing[w]] ^ t->powers[known[c]]];
            int64_t exponent = (sums[m + w] - apart - sums[c]) % ORDER;
            t->coefficients[w * m + c] = t->powers[exponent < 0 ? exponent + ORDER : exponent];
        }
}

/* Decode a block of which M symbols are there, and tell of its missing source packets. Returns their number, or -1 if
 * Python has to: there is no room, one cannot be read, no engine takes symbols at addresses, or symbols came before the
 * stream was followed there again. */
static int64_t restore(const Tables *t, int64_t number, int64_t k)
{
    Receiver *r = t->r;
    const Block *b = block_of(t, number);
    int64_t m = r->m;
    int64_t missing[ORDER];
    int64_t absent = 0;
    int64_t came = 0;
    int64_t first = MOST + r->restored;
    for (int64_t symbol = 0; symbol < (m > b->top ? m : b->top); symbol++) {
        if (has_arrived(t, number, symbol))
            came++;
        else if (symbol < m)
            missing[absent++] = symbol;
    }
    if (came != b->arrived || first + absent > 2 * MOST || (absent && !r->multiply_at))
        return -1;
    if (absent) {
        uint8_t *sources[ORDER];
        uint8_t *restored[ORDER];
        interpolate(t, t->symbols + b->place * m, missing, absent);
        for (int64_t e = 0; e < m; e++)
            sources[e] = t->bodies + (b->place * m + e) * r->symbol_bytes;
        for (int64_t j = 0; j < absent; j++)
            restored[j] = t->rows + (first + j) * t->row_bytes + HEADER_BYTES;
        ((Prepare)(intptr_t)r->prepare_at)((int)m, (int)absent, t->coefficients, t->multipliers);
        ((Multiply)(intptr_t)r->multiply_at)((int)r->symbol_bytes, (int)m, (int)absent, t->multipliers, sources, restored);
    }
    for (int64_t j = 0; j < absent; j++)
        if (get(t->rows + (first + j) * t->row_bytes + HEADER_BYTES, 2) + 2 > r->symbol_bytes)
            return -1;
    for (int64_t j = 0; j < absent; j++)
        deliver(t, number * m + missing[j], first + j, r->count + r->restored + j, 1, k);
    r->restored += absent;
    r->recovered += absent;
    return absent;
}

/* A symbol that an open block did not have. Returns whether Python has to decode the block now. */
static int use(const Tables *t, int64_t k, int64_t number, int64_t symbol, int64_t sent_us)
{
    Receiver *r = t->r;
    Block *b = block_of(t, number);
    double now_s = t->times[k];
    if (sent_us < b->start_us && sent_us >= earliest_us(t->schedule, number))
        began(t, number, sent_us);
    if (b->complete) {
        r->unused_parity += symbol >= r->m;
        r->unused_sources += symbol < r->m;
        return 0;
    }
    if (b->place < 0)
        b->place = t->free_places[--r->free];
    t->symbols[b->place * r->m + b->arrived] = (uint8_t)symbol;
    memcpy(t->bodies + (b->place * r->m + b->arrived) * r->symbol_bytes, t->rows + k * t->row_bytes + HEADER_BYTES,
           (size_t)r->symbol_bytes);
    b->arrived++;
    if (symbol < r->m) {
        deliver(t, number * r->m + symbol, k, k, 0, k);
        if (b->arrived == r->half) {
            double step_s = r->quicker_s * STEP;
            half_arrived(t->schedule, number, sent_us);
            r->usual_s += now_s - sent_us * S_PER_US > r->usual_s ? step_s : -step_s;
        }
    }
    if (b->arrived >= r->m) {
        r->in_time = 1;
        int64_t recovered = restore(t, number, k);
        if (recovered < 0) {
            r->decodable = number;
            return 1;
        }
        r->decoded_blocks++;
        tell(t, number, -1, b->arrived, recovered, k);
        t->free_places[r->free++] = b->place;
        b->complete = 1;
        b->arrived = 0;
        b->place = -1;
    } else if (b->top - b->arrived > b->size - r->m && !r->urgent) {
        r->urgent = 1;
        r->alarm_s = now_s;
    }
    return 0;
}

static int take(const Tables *t)
{
    Receiver *r = t->r;
    while (r->next < r->count) {
        int64_t k = r->next;
        const uint8_t *row = t->rows + k * t->row_bytes;
        double now_s = t->times[k];
        if (!close_complete(t, now_s) || !r->known || !is_packet(t, k) || get(row + 8, 4) != r->session)
            return OTHER;
        int64_t number = nearest(get(row + 4, 3), r->highest, BLOCK_NUMBERS);
        int64_t symbol = row[7];
        int64_t sent_us = nearest(get(row + 20, 4), r->newest_us, STAMPS);
        double transit_s = now_s - sent_us * S_PER_US;
        double late_s = transit_s - r->offset_s;
        if (!(0 <= late_s && late_s <= r->latest_s) ||
            (symbol < r->m && get(row + HEADER_BYTES, 2) + 2 > r->symbol_bytes))
            return OTHER;
        if (!(r->oldest <= number && number < r->stop)) {
            if (!may_begin(t, number, sent_us, now_s))
                return OTHER;
            begin(t, number, sent_us, now_s);
        }
        Block *b = block_of(t, number);
        if (b->spoilt)
            return OTHER;
        r->waiting++;
        keep_time(t, sent_us, transit_s, now_s);
        double *log = t->log[r->logged++];
        log[0] = now_s;
        log[1] = (double)get(row + 4, 3);
        log[2] = (double)symbol;
        r->next++;
        if (has_arrived(t, number, symbol)) {
            r->duplicate++;
            continue;
        }
        r->accepted++;
        t->bits[number & (SLOTS - 1)][symbol >> 6] |= (uint64_t)1 << (symbol & 63);
        b->top = symbol + 1 > b->top ? symbol + 1 : b->top;
        b->size = row[14] > b->size ? row[14] : b->size;
        r->touched = number < r->touched ? number : r->touched;
        int decodable = use(t, k, number, symbol, sent_us);
        if (row[15])
            count(&t->paths[row[15]], get(row + 16, 2));
        if (decodable)
            return DECODABLE;
    }
    return DONE;
}

enum { TABLES = 17 };

/* receive(*tables): 0 if all packets are received, else why Python has to act. */
PyObject *receive(PyObject *module, PyObject *arguments)
{
    Py_buffer held[TABLES];
    Py_ssize_t got = 0;
    PyObject *result = NULL;
    (void)module;
    if (PyTuple_GET_SIZE(arguments) != TABLES) {
        PyErr_Format(PyExc_TypeError, "give %d tables", TABLES);
        return NULL;
    }
    for (; got < TABLES; got++)
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(arguments, got), &held[got], PyBUF_WRITABLE) < 0)
            goto done;
    Tables t = {
        .r = held[0].buf, .blocks = held[1].buf, .bits = held[2].buf, .symbols = held[3].buf, .bodies = held[4].buf,
        .free_places = held[5].buf, .paths = held[6].buf, .schedule = held[7].buf, .rows = held[8].buf,
        .lengths = held[9].buf, .times = held[10].buf, .good = held[11].buf, .notes = held[12].buf, .log = held[13].buf,
        .coefficients = held[14].buf, .powers = held[15].buf, .logarithms = held[16].buf,
    };
    int fits = held[0].len == sizeof(Receiver);
    const int64_t m = fits ? t.r->m : 0;
    const int64_t length = fits ? t.r->symbol_bytes : 0;
    t.row_bytes = held[8].len / (2 * MOST);
    const int64_t coefficients = m * (m < ORDER - m ? m : ORDER - m);
    fits = fits && 0 < m && m <= MAX_SYMBOL_ID && 1 < length && t.row_bytes > HEADER_BYTES + length;
    const int64_t sizes[TABLES] = {
        sizeof(Receiver), SLOTS * sizeof(Block), SLOTS * sizeof *t.bits, PLACES * m, PLACES * m * length,
        PLACES * sizeof(int64_t), PATHS * sizeof(Path), sizeof(Schedule), 2 * MOST * t.row_bytes,
        MOST * sizeof(int64_t), MOST * sizeof(double), MOST, 3 * MOST * sizeof(Note), MOST * sizeof *t.log,
        33 * coefficients, 255, 256 * sizeof(int64_t),
    };
    for (int k = 0; fits && k < TABLES; k++)
        fits = held[k].len >= sizes[k];
    fits = fits && 0 <= t.r->next && t.r->next <= t.r->count && t.r->count <= MOST;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "tables of other sizes than those of fec.protocol.compiled.tables");
        goto done;
    }
    t.multipliers = t.coefficients + coefficients;
    result = PyLong_FromLong(take(&t));
done:
    while (got > 0)
        PyBuffer_Release(&held[--got]);
    return result;
}
