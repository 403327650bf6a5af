/* Growing and asking boosted trees on columns of few values: the same sums in the same order as XGBoost's "hist". */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 256, WORD_BITS = 64, WORDS = MOST_VALUES / WORD_BITS };

/* XGBoost refuses gains up to this one, whatever gamma is. */
static const float LEAST_GAIN = 1e-6f;

/* XGBoost splits so many nodes of a depth at once. */
enum { BATCH = 256 };

typedef struct {
    double gradient, weight;
} Sum;

typedef struct {
    float min_child_weight, gamma, lambda, alpha, learning_rate;
} Penalties;

typedef struct {
    const uint8_t *level; /* of each row, one column after the other */
    const float *gradient, *weight;
    int64_t n_rows, n_columns;
    int64_t max_depth; /* 0: no limit */
    const Penalties *penalties;
} Problem;

typedef struct {
    float gain;
    int64_t column; /* -1: none */
    int32_t level;  /* the last one that goes left */
    Sum left, right;
} Split;

/* A node that waits for its split: some consecutive entries of the order of rows. */
typedef struct {
    int64_t begin, end, depth;
    Sum sum;
} Node;

/* A tree, and what growing it needs; the children of a node follow each other. */
typedef struct {
    int32_t *column, *level, *left;
    float *value;
    Node *nodes;
    int64_t n_nodes;
    int32_t *order, *spare;
    Sum at[MOST_VALUES]; /* all zero between two columns */
} Tree;

static double beyond(double gradient, double alpha) {
    if (gradient > alpha) return gradient - alpha;
    return gradient < -alpha ? gradient + alpha : 0.0;
}

/* Numerator and denominator in single precision, as XGBoost divides them: ties are then the same. */
static float score(Sum sum, const Penalties *p) {
    double gradient = beyond(sum.gradient, p->alpha);
    return sum.weight <= 0 ? 0.0f : (float)(gradient * gradient) / (float)(sum.weight + p->lambda);
}

static float leaf_value(Sum sum, const Penalties *p) {
    if (sum.weight < p->min_child_weight || sum.weight <= 0) return 0.0f;
    return (float)(-beyond(sum.gradient, p->alpha) / (sum.weight + p->lambda)) * p->learning_rate;
}

static int lowest_bit(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_ctzll(word);
#else
    int bit = 0;
    while (!(word >> bit & 1)) bit++;
    return bit;
#endif
}

/* Sum up a node's rows by their level in one column, and note which levels there are. */
static void sum_levels(const Problem *problem, Tree *tree, const Node *node, const uint8_t *level, uint64_t *seen) {
    for (int64_t i = node->begin; i < node->end; i++) {
        int32_t row = tree->order[i];
        unsigned here = level[row];
        seen[here / WORD_BITS] |= 1ull << here % WORD_BITS;
        tree->at[here].gradient += problem->gradient[row];
        tree->at[here].weight += problem->weight[row];
    }
}

/* Levels that no row of the node has would give the split before them again, so only others are tried. */
static void try_column(const Problem *problem, Tree *tree, const Node *node, int64_t column, Split *best) {
    const Penalties *p = problem->penalties;
    uint64_t seen[WORDS] = {0};
    Sum left = {0, 0};
    float unsplit = score(node->sum, p);
    sum_levels(problem, tree, node, problem->level + column * problem->n_rows, seen);
    for (int word = 0; word < WORDS; word++) {
        for (uint64_t ahead = seen[word]; ahead; ahead &= ahead - 1) {
            int32_t level = word * WORD_BITS + lowest_bit(ahead);
            left.gradient += tree->at[level].gradient;
            left.weight += tree->at[level].weight;
            tree->at[level] = (Sum){0, 0};
            Sum right = {node->sum.gradient - left.gradient, node->sum.weight - left.weight};
            if (left.weight < p->min_child_weight || right.weight < p->min_child_weight) continue;
            float gain = score(left, p) + score(right, p) - unsplit;
            if (gain > best->gain && !isinf(gain)) *best = (Split){gain, column, level, left, right};
        }
    }
}

static Split best_split(const Problem *problem, Tree *tree, const Node *node) {
    Split best = {.gain = 0, .column = -1};
    int is_deepest = problem->max_depth > 0 && node->depth >= problem->max_depth;
    if (is_deepest || node->end - node->begin < 2) return best;
    for (int64_t column = 0; column < problem->n_columns; column++) try_column(problem, tree, node, column, &best);
    int is_worth_it = best.gain > LEAST_GAIN && best.gain >= problem->penalties->gamma;
    if (!is_worth_it || best.left.weight == 0 || best.right.weight == 0) best.column = -1;
    return best;
}

/* Bring the rows that go left to the front, each side in its order; return where the right side begins. */
static int64_t part(const Problem *problem, Tree *tree, const Node *node, const Split *split) {
    const uint8_t *level = problem->level + split->column * problem->n_rows;
    int64_t middle = node->begin, n_right = 0;
    for (int64_t i = node->begin; i < node->end; i++) {
        int32_t row = tree->order[i];
        if (level[row] <= split->level)
            tree->order[middle++] = row;
        else
            tree->spare[n_right++] = row;
    }
    memcpy(tree->order + middle, tree->spare, n_right * sizeof *tree->order);
    return middle;
}

static void add_leaf(Tree *tree, int64_t place, float value, float *predicted) {
    Node node = tree->nodes[place];
    tree->column[place] = tree->level[place] = 0;
    tree->left[place] = -1;
    tree->value[place] = value;
    for (int64_t i = node.begin; i < node.end; i++) predicted[tree->order[i]] += value;
}

/* Return 0 if all rows would go to one side. Sums of counts are exact, so only other weights could come to that. */
static int add_split(const Problem *problem, Tree *tree, int64_t place, const Split *split) {
    Node node = tree->nodes[place];
    int64_t middle = part(problem, tree, &node, split);
    if (middle == node.begin || middle == node.end) return 0;
    tree->column[place] = (int32_t)split->column;
    tree->level[place] = split->level;
    tree->left[place] = (int32_t)tree->n_nodes;
    tree->value[place] = 0;
    tree->nodes[tree->n_nodes++] = (Node){node.begin, middle, node.depth + 1, split->left};
    tree->nodes[tree->n_nodes++] = (Node){middle, node.end, node.depth + 1, split->right};
    return 1;
}

/* The sum of all rows, taken over the levels of the first column: rounding depends on the order. */
static Node root_of(const Problem *problem, Tree *tree) {
    Node root = {0, problem->n_rows, 0, {0, 0}};
    uint64_t seen[WORDS] = {0};
    for (int64_t row = 0; row < problem->n_rows; row++) tree->order[row] = (int32_t)row;
    sum_levels(problem, tree, &root, problem->level, seen);
    for (int level = 0; level < MOST_VALUES; level++) {
        root.sum.gradient += tree->at[level].gradient;
        root.sum.weight += tree->at[level].weight;
        tree->at[level] = (Sum){0, 0};
    }
    return root;
}

/* What became of the nodes of one depth so far. */
typedef struct {
    int64_t depth, n_splits;
    int ends_refused; /* a node after the last split could be split, but for gamma */
} Level;

/* After full batches, XGBoost takes the nodes that are left; if gamma refuses each, the whole tree is finished. */
static int finishes(const Level *level) {
    return level->n_splits > 0 && level->n_splits % BATCH == 0 && level->ends_refused;
}

/* Grow level by level, and add the value of its leaf to what is predicted for each row. */
static void grow_tree(const Problem *problem, Tree *tree, float *predicted) {
    Level level = {0};
    int is_finished = 0;
    memset(tree->at, 0, sizeof tree->at);
    tree->nodes[0] = root_of(problem, tree);
    tree->n_nodes = 1;
    for (int64_t place = 0; place < tree->n_nodes; place++) {
        Split split = {.gain = 0, .column = -1};
        if (tree->nodes[place].depth != level.depth) {
            is_finished |= finishes(&level);
            level = (Level){.depth = tree->nodes[place].depth};
        }
        if (!is_finished) split = best_split(problem, tree, &tree->nodes[place]);
        if (split.column >= 0 && add_split(problem, tree, place, &split)) {
            level.n_splits++;
            level.ends_refused = 0;
        } else {
            level.ends_refused |= split.gain > LEAST_GAIN;
            add_leaf(tree, place, leaf_value(tree->nodes[place].sum, problem->penalties), predicted);
        }
    }
}

static int allocate(Tree *tree, int64_t n_rows) {
    size_t most_nodes = 2 * (size_t)n_rows - 1;
    tree->column = malloc(most_nodes * sizeof *tree->column);
    tree->level = malloc(most_nodes * sizeof *tree->level);
    tree->left = malloc(most_nodes * sizeof *tree->left);
    tree->value = malloc(most_nodes * sizeof *tree->value);
    tree->nodes = malloc(most_nodes * sizeof *tree->nodes);
    tree->order = malloc(n_rows * sizeof *tree->order);
    tree->spare = malloc(n_rows * sizeof *tree->spare);
    return tree->column && tree->level && tree->left && tree->value && tree->nodes && tree->order && tree->spare;
}

static void release(Tree *tree) {
    free(tree->column);
    free(tree->level);
    free(tree->left);
    free(tree->value);
    free(tree->nodes);
    free(tree->order);
    free(tree->spare);
}

static PyObject *grow_in(const Problem *problem, float *predicted) {
    Tree tree;
    PyObject *grown = NULL;
    if (!allocate(&tree, problem->n_rows)) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS
        grow_tree(problem, &tree, predicted);
        Py_END_ALLOW_THREADS
        Py_ssize_t size = tree.n_nodes * 4;
        grown = Py_BuildValue("(y#y#y#y#)", (char *)tree.column, size, (char *)tree.level, size, (char *)tree.left, size,
                              (char *)tree.value, size);
    }
    release(&tree);
    return grown;
}

static PyObject *grow(PyObject *self, PyObject *args) {
    Py_buffer level, gradient, weight, penalties, predicted;
    long long max_depth;
    PyObject *grown = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*y*Lw*", &level, &gradient, &weight, &penalties, &max_depth, &predicted)) return NULL;
    int64_t n_rows = gradient.len / 4;
    if (n_rows < 1 || n_rows > INT32_MAX / 2 || weight.len != gradient.len || predicted.len != gradient.len ||
        level.len < n_rows || level.len % n_rows || penalties.len != sizeof(Penalties)) {
        PyErr_SetString(PyExc_ValueError, "the arrays do not belong together");
    } else {
        Problem problem = {level.buf, gradient.buf, weight.buf, n_rows, level.len / n_rows, max_depth, penalties.buf};
        grown = grow_in(&problem, predicted.buf);
    }
    PyBuffer_Release(&level);
    PyBuffer_Release(&gradient);
    PyBuffer_Release(&weight);
    PyBuffer_Release(&penalties);
    PyBuffer_Release(&predicted);
    return grown;
}

typedef struct {
    const int32_t *column, *left;
    const float *bound, *value;
} Grown;

static float leaf_of(const Grown *trees, int64_t start, const float *row) {
    int64_t node = start;
    while (trees->left[node] >= 0) node = start + trees->left[node] + !(row[trees->column[node]] < trees->bound[node]);
    return trees->value[node];
}

static PyObject *predict(PyObject *self, PyObject *args) {
    Py_buffer rows, starts, column, bound, left, value, predicted;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*w*", &rows, &starts, &column, &bound, &left, &value, &predicted)) return NULL;
    Grown trees = {column.buf, left.buf, bound.buf, value.buf};
    const int64_t *start = starts.buf;
    float *sum = predicted.buf;
    int64_t n_rows = predicted.len / 4, n_trees = starts.len / 8, n_columns = n_rows ? rows.len / 4 / n_rows : 0;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t tree = 0; tree < n_trees; tree++)
        for (int64_t i = 0; i < n_rows; i++) sum[i] += leaf_of(&trees, start[tree], (const float *)rows.buf + i * n_columns);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&rows);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&column);
    PyBuffer_Release(&bound);
    PyBuffer_Release(&left);
    PyBuffer_Release(&value);
    PyBuffer_Release(&predicted);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"grow", grow, METH_VARARGS, "Grow one tree, and add its values to what is predicted."},
    {"predict", predict, METH_VARARGS, "Add the values of trees to what is predicted."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_growing", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__growing(void) { return PyModule_Create(&module); }
