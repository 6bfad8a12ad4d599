import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one Java machine, which is warm after the first.
 *
 * <p>A request is a count and as many texts: the main class, its arguments and its standard input. The answer is the
 * exit code, what was printed and what was printed as an error. The arguments of this program are the jars of the
 * tools: each run loads them anew, because tools count in static fields.
 */
public class Tools {
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static Integer exitCode;

    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;
    }

    public static void main(String[] jars) throws Exception {
        URL[] tools = new URL[jars.length];
        for (int at = 0; at < jars.length; at++) {
            tools[at] = new File(jars[at]).toURI().toURL();
        }
        Exit.Procedure ends = (code, message) -> {
            exitCode = exitCode == null ? code : exitCode;
            throw new Exited();
        };
        Exit.setExitProcedure(ends);
        Exit.setHaltProcedure(ends);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        while (true) {
            String[] texts;
            try {
                texts = new String[requests.readInt()];
            } catch (EOFException end) {
                return;
            }
            for (int at = 0; at < texts.length; at++) {
                texts[at] = new String(requests.readNBytes(requests.readInt()), StandardCharsets.UTF_8);
            }
            answer(answers, tools, texts);
        }
    }

    private static void answer(DataOutputStream answers, URL[] tools, String[] texts) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        InputStream in = System.in;
        PrintStream out = System.out;
        PrintStream err = System.err;
        System.setIn(new ByteArrayInputStream(texts[texts.length - 1].getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        int code;
        try {
            code = run(tools, texts);
        } finally {
            System.out.flush();
            System.err.flush();
            System.setIn(in);
            System.setOut(out);
            System.setErr(err);
        }
        answers.writeInt(code);
        for (ByteArrayOutputStream each : List.of(printed, errors)) {
            answers.writeInt(each.size());
            each.writeTo(answers);
        }
        answers.flush();
    }

    private static int run(URL[] tools, String[] texts) throws Exception {
        exitCode = null;
        HOOKS.clear();
        String[] arguments = new String[texts.length - 2];
        System.arraycopy(texts, 1, arguments, 0, arguments.length);
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        try (URLClassLoader fresh = new URLClassLoader(tools, Tools.class.getClassLoader())) {
            Thread.currentThread().setContextClassLoader(fresh);
            int failed = 0;
            try {
                fresh.loadClass(texts[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException thrown) {
                if (!(thrown.getCause() instanceof Exited)) {
                    thrown.getCause().printStackTrace();
                    failed = 1;
                }
            } catch (ClassNotFoundException absent) {
                absent.printStackTrace();
                failed = 1;
            }
            for (Runnable each : HOOKS) {
                each.run();
            }
            return exitCode == null ? failed : exitCode;
        } finally {
            Thread.currentThread().setContextClassLoader(before);
        }
    }
}
