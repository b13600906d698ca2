// The program of a target that exists for its precompiled header only.
int main() {}
