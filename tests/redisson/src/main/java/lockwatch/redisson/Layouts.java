package lockwatch.redisson;
import java.nio.file.Path;
final class Layouts { static void write(Command c, Path p) {} }
